import pg from 'pg'
import { firstIdAt } from '../../src/core/ids.ts'
import { SEEDED_BUSINESS } from '../bench/seed.ts'
import { PAYMENT_PAYLOAD } from '../bench/seed-growth.ts'

const idOf = (prefix: string, number: string) =>
  `'${prefix}_00' || lpad((${number})::text, 24, '0')`

const BUSINESS = `'${SEEDED_BUSINESS}'`

/** An id of a time, as the service makes them. */
const idAt = (prefix: string, at: string, number: string) =>
  `'${prefix}_' || (
    select string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', (
        floor(extract(epoch from ${at}) * 1000)::bigint >> (5 * place) & 31)::int + 1, 1), '' order by place desc)
    from generate_series(0, 9) place) || lpad(${number}::text, 16, '0')`

/** How many transactions there are for each payout. */
const PAYOUT_PART = 4

/** The business of a row, round robin. */
const anyBusiness = (number: string) =>
  `'biz_01' || lpad((1 + ${number} % (select count(*) from business))::text, 24, '0')`

/**
 * Fills the tables that `seedGrowth` leaves empty, each with at least a twentieth of its transactions.
 * Rare rows are old, so a list reaches them last.
 */
export async function seedOthers(databaseUrl: string, transactions: number): Promise<void> {
  const options = '-c session_replication_role=replica -c synchronous_commit=off'
  const client = new pg.Client({ connectionString: databaseUrl, options })
  await client.connect()
  try {
    for (const statement of [
      ...accounts(transactions),
      ...splits,
      ...credentials,
      ...books,
      ...exceptions,
      ...payouts(transactions),
      ...hours,
    ]) {
      const values = statement.includes('$1') ? [Math.floor(transactions / 10)] : []
      await client.query(statement, values)
    }
    await client.query(
      `insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
        select ${idOf('evt', 'n')}, ${BUSINESS}, true, 'ACCOUNT_CREATED', now(), $2
        from generate_series(1, $1::int) n`,
      [Math.floor(transactions / 10), PAYMENT_PAYLOAD],
    )
    await client.query('select sequence_events(1000000)')
    await client.query('update webhook_dispatcher set position = (select position from sequencer)')
    await client.query('vacuum (analyze)')
  } finally {
    await client.end()
  }
}

const accounts = (transactions: number) => [
  `insert into account (id, business_id, live, reference, merchant_reference, bank, account_number,
      account_name, status, first_name, last_name, email, phone, details_hash, attempts,
      claimed_until, created_at, id_number_hash)
    select ${idOf('acc', 'a')}, ${BUSINESS}, true, 'R-' || lpad(a::text, 20, 'C'), 'old-' || a,
      'PROVIDUS', lpad(a::text, 10, '0'), 'Business/Ada Obi', case when a % 10 = 0 then 'PENDING' else 'CLOSED' end,
      'Ada', 'Obi', 'ada.obi@example.com', '08012345678', sha256(a::text::bytea), 1, now(), now(),
      sha256(a::text::bytea)
    from generate_series(1, ${Math.floor(transactions / 20)}) a`,
]

const splits = [
  `insert into account_split (id, account_id, valid_from, fee_bearer)
    select ${idOf('spl', 'row_number() over ()')}, id, to_timestamp(0), 'OWNER' from account`,
  `insert into account_split_recipient (split_id, number, business_id, basis_points)
    select id, 1, ${BUSINESS}, 1 from account_split`,
  `insert into split_approval (business_id, recipient_id, approved_at)
    select case when n % 2 = 0 then ${BUSINESS} else ${anyBusiness('n')} end, ${idOf('biz', 'n')}, now()
    from generate_series(1, $1::int) n`,
]

const credentials = [
  `insert into api_key (id, business_id, live, prefix, secret_hash, created_at, allowed_cidrs)
    select ${idOf('key', 'n')}, case when n % 2 = 0 then ${BUSINESS} else ${anyBusiness('n')} end, true, 'sk_live_x', '', now(), '{}'
    from generate_series(1, $1::int) n`,
  `insert into internal_token (id, name, description, prefix, secret_hash, scopes, created_at)
    select ${idOf('tok', 'n')}, 'token ' || n, '', 'x', '', '{read}', now()
    from generate_series(1, $1::int) n`,
  `insert into session (id, kind, caller_id, name, scopes, secret_hash, address, created_at, last_used_at, expires_at)
    select ${idOf('ses', 'n')}, 'token', ${idOf('tok', 'n % 50')}, 'x', '{read}', '', '', now(), now(), now() + interval '1 hour'
    from generate_series(1, $1::int) n`,
  `insert into sign_in_code (id, caller_id, name, scopes, secret_hash, created_at, expires_at)
    select ${idOf('sic', 'n')}, ${idOf('tok', 'n')}, 'x', '{read}', '', now(), now() from generate_series(1, $1::int) n`,
  `insert into portal_link (id, business_id, scopes, description, secret_hash, created_at, expires_at)
    select ${idOf('plk', 'n')}, case when n % 2 = 0 then ${BUSINESS} else ${anyBusiness('n')} end, '{read}', '', '', now(),
      now() + interval '1 hour'
    from generate_series(1, $1::int) n`,
  `insert into audit_entry (number, at, actor_kind, actor_id, actor_name, address, request_id, action,
      target_kind, target_id, business_id, details, previous_hash, hash)
    select n, now() - ($1::int - n) * interval '1 minute', 'token', case when n <= 100 then 'tok_rare' else 'tok_often' end, 'x', '', '',
      case when n % 2 = 0 then 'key.issue' else 'key.revoke' end, 'key', case when n <= 200 then 'key_rare' else 'key_' || n % 50 end,
      case when n % 3 = 0 then ${anyBusiness('n')} else ${BUSINESS} end, '{}', '', ''
    from generate_series(1, $1::int) n`,
  "insert into audit_mac (number, mac) select number, decode(repeat('00', 48), 'hex') from audit_entry",
  'update audit_head set number = (select max(number) from audit_entry)',
  // Of one business, they are kept up to a bound. Their ids are of now: older ones would be deleted while the tests run.
  `insert into api_request (id, business_id, live, failed, key_id, received_at, path, protocol, status, duration_ms,
      request_id, address, code, error, faults, body, bytes)
    select '${firstIdAt('arq', Date.now())}' || lpad(n::text, 16, '0'), case when n % 4 = 0 then ${BUSINESS} else ${anyBusiness('n')} end, n % 8 < 4,
      n % 16 < 8, case when n <= 100 then 'key_rare' else 'key_often' end, now(), '/v2/thirdparty/getBalance/',
      'rest', case when n % 16 < 8 then 404 else 200 end, 1, 'req_' || n, '::1', '', '', '', '', 0
    from generate_series(1, $1::int) n`,
]

const books = [
  `insert into settlement (id, business_id, live, status, forced, cut_off_at, from_sequence, to_sequence,
      scanned_sequence, fee_flat_minor, fee_basis_points, fee_cap_minor, transaction_count, gross_minor,
      fees_minor, balance_pending_minor, balance_available_minor, balance_fees_minor, started_at, completed_at)
    select ${idOf('stl', 'n')}, case when n % 2 = 0 then ${BUSINESS} else ${anyBusiness('n')} end, n > 20,
      'COMPLETED', false, now(), n - 1, n, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, now(), now()
    from generate_series(1, $1::int) n`,
  `insert into settlement_request (id, business_id, live, idempotency_key, forced, created_at, completed_at)
    select 'request-' || n, '', true, n::text, false, now(), now() from generate_series(1, $1::int) n`,
  // Nothing is due while the tests run.
  `insert into settlement_terms (business_id, schedule, working_days, cut_off_minutes, fee_flat_minor,
      fee_basis_points, fee_cap_minor, updated_at)
    select id, 'WORKING_DAYS', 30, 0, 0, 0, 0, now() from business`,
  `insert into settlement_due (business_id, live, due_at, next_at, failures)
    select id, mode.live, now() + interval '30 days', now() + interval '30 days', 0
    from business cross join (values (true), (false)) mode(live)`,
  `insert into archived_entry (business_id, live, business_sequence, kind, subject_id, occurred_at,
      logged_at, pending_minor, available_minor, fees_minor)
    select 'biz_gone', true, n, 'PAYMENT_NOTIFICATION', 'txn', now(), now(), 1, 0, 0
    from generate_series(1, $1::int) n`,
  `insert into event_business_counter
      (business_id, live, last_sequence, pending_minor, available_minor, fees_minor)
    select 'biz_gone', true, n * 1024, n, 0, 0 from generate_series(1, $1::int) n`,
  `insert into holiday (day, name) select date '2026-01-01' + n, 'day'
    from generate_series(1, least($1::int, 500)) n`,
]

const exceptions = [
  `insert into unmatched_payment (id, bank, account_number, session_id, amount_minor, status, paid_at,
      created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name, narration,
      resolution, resolved_at)
    select ${idOf('unm', 'n')}, case when n <= 60 then 'PALMPAY' else '9PSB' end, '9999999999', 'u' || n, 1, 'SUCCESS', now(), now(), '', '', '',
      '', '', case when n % 2 = 0 then 'RETURNED' end, case when n % 2 = 0 then now() end
    from generate_series(1, $1::int) n`,
  `insert into payment_conflict (transaction_id, account_number, amount_minor, status, id, created_at,
      resolved_at)
    select id, '1', 1, 'SUCCESS', 'cfl_' || id, now(), case when right(id, 1) = '0' then null else now() end
    from transaction order by id limit $1`,
  `insert into payment_variance (transaction_id, business_id, live, account_id, variance, hold, is_use, decided_at)
    select id, business_id, live, account_id, 'UNDERPAID', hold, false, case when hold <> 'HELD' then now() end
    from (select t.*, row_number() over (order by id) as n from transaction t order by id limit $1) t
      cross join lateral (values (case when n <= 100 then 'RETURN_REQUESTED' when n % 2 = 0 then 'HELD' else 'ACCEPTED' end))
      as h(hold)`,
  `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key, state, outcome,
      cause, tries)
    select ${idOf('ntf', 'n')}, case when n <= 60 then 'PALMPAY' else '9PSB' end, n::text::bytea, now(), '', n,
      case when n % 2 = 0 then 'PROCESSED' else 'MANUAL_REVIEW' end, '', '', 1
    from generate_series(1, $1::int) n`,
  `insert into reconciliation_run (bank, scope, in_progress, from_at, to_at, cursor, missed, failures, next_at)
    values ('9PSB', 'payments', false, now(), now(), '', 0, 0, now())`,
  `insert into bank_payment_key (bank, bank_key, session_id, created_at)
    select '9PSB', n, 'k' || n, now() from generate_series(1, $1::int) n`,
  `insert into webhook_endpoint (id, business_id, live, url, kinds, description, concurrency,
      after_position, created_at)
    select ${idOf('ep', 'n')}, 'biz_01' || lpad((2 + n % (select count(*) - 1 from business))::text, 24, '0'),
      true, 'https://example.com/', '{SETTLEMENT_COMPLETED}', '', 10, 0, now()
    from generate_series(1, $1::int) n`,
  `insert into webhook_secret (endpoint_id, number, secret_encrypted, created_at)
    select id, 1, '', created_at from webhook_endpoint`,
]

/** Payouts, a second apart: most of them paid, the oldest open or failed. No bank is asked about any of them soon. */
const payouts = (transactions: number) => [
  `insert into payout (id, business_id, live, reference, purpose, status, source, amount_minor, fee_minor, duty_minor,
      bank_code, bank_name, account_number, account_name, narration, enquiry_reference, bank, bank_reference,
      requested_by, approval_reason, created_at, next_at, submitted_at, completed_at, transaction_id, settlement_id,
      batch_id, generation)
    select id, case when n % 2 = 0 then ${BUSINESS} else ${anyBusiness('n')} end, n % 8 <> 0, n::text, purpose, status,
      'available', 100, 0, 0, '000013', 'Guaranty Trust Bank', case when n % 4 = 0 then '0123456785' else lpad(n::text, 10, '0') end,
      'ADA OBI', 'Business', '', '9PSB', n::text, 'bootstrap', '', created_at,
      now() + case when status = 'PAID' then interval '7 days' else interval '1 day' end, created_at,
      case when status in ('PAID', 'FAILED') then created_at end,
      case when purpose = 'REFUND' then 'txn_01' || lpad((n % 100)::text, 24, '0') end,
      case when purpose = 'SETTLEMENT' then ${idOf('stl', 'n')} end, case when n % 500 = 0 then 'batch-' || n % 10 when n % 5 = 0 then ${idOf('pba', 'n')} end, 1
    from generate_series(1, ${Math.floor(transactions / PAYOUT_PART)}) n
      cross join lateral (values (now() - n * interval '1 second')) t (created_at)
      cross join lateral (values (${idAt('pay', 'created_at', 'n')},
        case when n > ${Math.floor(transactions / PAYOUT_PART) - 100} then 'UNKNOWN'
          when n > ${Math.floor(transactions / PAYOUT_PART) - 200} then 'FAILED' else 'PAID' end,
        case when n % 50 = 0 then 'REFUND' when n % 51 = 0 then 'SETTLEMENT' else 'PAYOUT' end))
      as p (id, status, purpose)`,
  `insert into payout_batch (id, business_id, live, reference, count, sum_minor, details_hash, requested_by,
      approval_reason, created_at)
    select ${idOf('pba', 'n')}, case when n % 2 = 0 then ${BUSINESS} else ${anyBusiness('n')} end, true, n::text, 1,
      100, '', 'bootstrap', '', now()
    from generate_series(1, $1::int) n`,
  `insert into payout_item (batch_id, number, reference, amount_minor, bank_code, account_number, account_name, narration)
    select id, 1, reference, 100, '000013', '0123456785', 'ADA OBI', '' from payout_batch`,
  `insert into payout_posting (payout_id, kind, debit_account, credit_account, amount_minor, created_at)
    select id, 'reservation', 'available', 'reserved', 100, created_at from payout`,
  `insert into payout_step (payout_id, number, at, status, actor, text)
    select id, 1, created_at, 'APPROVED', '', 'requested' from payout`,
  `insert into payout_day (business_id, live, day, requested_minor)
    select ${idOf('biz', 'n % 500')}, true, current_date - n / 500, 100 from generate_series(0, $1::int - 1) n`,
  `insert into payout_beneficiary (business_id, live, bank_code, account_number, account_name, first_used_at,
      last_used_at)
    select ${BUSINESS}, n % 2 = 0, '000013', lpad(n::text, 10, '0'), 'ADA OBI', now(), now() - n * interval '1 second'
    from generate_series(1, $1::int) n`,
  `insert into payout_refund (transaction_id, amount_minor, refunded_minor, pending_minor)
    select id, amount_minor, 0, 0 from transaction order by id limit $1`,
  `insert into payout_listed (payout_id, session_id, listed_at)
    select id, reference, created_at from payout where status = 'PAID'`,
  `insert into payout_discrepancy (id, kind, bank, live, line_key, bank_reference, session_id, payout_id, amount_minor,
      account_number, text, found_at, resolved_at)
    select ${idOf('pdc', 'n')}, 'MISSING_HERE', '9PSB', true, n::text, n::text, '', null, 100, '', '', now(),
      case when n % 2 = 0 then now() end
    from generate_series(1, $1::int) n`,
  `insert into payout_pause (scope, target, reason, paused_by, paused_at)
    select 'BUSINESS', ${idOf('biz', 'n')}, '', '', now() - n * interval '1 second' from generate_series(1, $1::int) n`,
  `insert into payout_policy (business_id, payout_max_minor, daily_max_minor, monthly_max_minor, cool_down_hours,
      new_beneficiary_max_minor, approval_hours, fees, charge_duty, floor_minor, updated_at)
    select ${idOf('biz', 'n')}, 0, 0, 0, 24, 0, 72, '[]', false, 0, now() from generate_series(1, $1::int) n`,
]

/** The businesses have figures of the hours around now, and all together of many more. */
const hours = [
  `insert into payment_hour (business_id, live, bank, hour, payments, amount_minor, reversals, reversed_minor,
      last_at)
    select case when n % 4 = 0 then '' when n % 4 = 1 then ${BUSINESS} else ${anyBusiness('n')} end, true, '9PSB',
      date_trunc('hour', now()) - n * interval '1 hour', 1, 1, 0, 0, now()
    from generate_series(1, $1::int) n`,
  `insert into webhook_hour (business_id, live, hour, attempts, delivered, failed, delays)
    select case when n % 4 = 0 then '' when n % 4 = 1 then ${BUSINESS} else ${anyBusiness('n')} end, true,
      date_trunc('hour', now()) - n * interval '1 hour', 1, 1, 0, array_fill(0, array[64])
    from generate_series(1, $1::int) n`,
  // Half of the pending openings wait for an operator, and some endpoints fail.
  `update account set opening_state = 'MANUAL_REVIEW' where status = 'PENDING' and right(id, 2) < '50'`,
  `update webhook_endpoint set failing_since = now() where right(id, 1) < '3'`,
]
