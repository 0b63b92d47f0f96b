import pg from 'pg'
import { firstIdAt, newId } from '../../src/core/ids.ts'
import { encodeTransactionEvent } from '../../src/transactions/message.ts'
import { idOf, SEEDED_BUSINESS, sessionIdOf } from './seed.ts'

/** The contents of the database after years of use. */
export interface GrowthSizes {
  /** The first one has four fifths of accounts and transactions, the others share the rest. */
  readonly businesses: number
  readonly accounts: number
  readonly transactions: number
  /** They are of so many years, each with a partition of its own; absent or 0: of a month at most. */
  readonly years?: number
  /** How many of the newest have events: those of the others have expired. Absent: all. */
  readonly events?: number
  /** With an attempt each, to endpoints of the first business; fewer than the events of it. */
  readonly deliveries: number
  /** How many events the sequencer numbers at a time; absent: the default. */
  readonly numberedMax?: number
}

/** One in N is of a tail business, or in that state; coprime, so that all combinations occur. */
const TAIL_EVERY = 5
const FAILED_EVERY = 97
const PENDING_EVERY = 101
const REVERSED_EVERY = 499

/** One in N payments of the first business goes to its first account. */
const BUSY_EVERY = 11

/** Endpoints of the first business. */
const ENDPOINTS = 4

/** How many events the sequencer numbers at a time, as in the service. */
const NUMBERED_MAX = 5_000

/** The live payments of the first business, after `seedGrowth`. */
export function growthSessions({ transactions }: GrowthSizes): number {
  return transactions - Math.floor(transactions / TAIL_EVERY)
}

/** The open accounts of the first business: those with the first numbers. */
export function growthAccounts({ accounts }: GrowthSizes): number {
  return accounts - Math.floor(accounts / TAIL_EVERY)
}

/**
 * Fills an empty database in bulk: transactions with their sessions, postings and sequenced events, and
 * deliveries with their attempts. Checks all foreign keys at the end. Connects as a superuser.
 */
export async function seedGrowth(
  databaseUrl: string,
  sizes: GrowthSizes,
  nowMs = Date.now(),
): Promise<void> {
  const open = async (options: string) => {
    const client = new pg.Client({ connectionString: databaseUrl, options })
    await client.connect()
    return client
  }
  // Disables triggers, and with them foreign keys; the sequencer keeps its triggers.
  const unchecked = '-c session_replication_role=replica -c synchronous_commit=off'
  const loader = await open(unchecked)
  const ledger = await open(unchecked)
  const sequencer = await open('-c synchronous_commit=off')
  const numberEvents = async (): Promise<void> => {
    const select = 'select more from sequence_events($1)'
    const rowsMax = sizes.numberedMax ?? NUMBERED_MAX
    while ((await sequencer.query<{ more: boolean }>(select, [rowsMax])).rows[0]?.more);
  }
  try {
    await seedOwners(loader, sizes)
    await cutYears(loader, sizes.years ?? 0, nowMs)
    let numbered: Promise<unknown> = Promise.resolve()
    for (let from = 1; from <= sizes.transactions; from += CHUNK) {
      const chunk = chunkOf(from, sizes, nowMs)
      await seedTransactions(loader, sizes, chunk)
      const posted = seedBooks(ledger, chunk)
      if (chunk.to > sizes.transactions - (sizes.events ?? sizes.transactions))
        await seedEvents(loader, chunk)
      await posted
      await numbered
      // While the next transactions are written; it numbers what is committed.
      numbered = numberEvents()
      numbered.catch(() => undefined)
    }
    await numbered
    await seedWebhooks(loader, sizes.deliveries)
    // The sweep of the first run finds what is due, rather than the follower.
    await loader.query(
      "update log_follower set position = (select max(position) from event_log) where name = 'settlement'",
    )
    await checkForeignKeys(loader)
    await loader.query('vacuum (analyze)')
  } finally {
    await Promise.all([loader.end(), ledger.end(), sequencer.end()])
  }
}

/** Makes the partitions that the service would have made in these years. */
async function cutYears(client: pg.Client, years: number, nowMs: number): Promise<void> {
  const last = new Date(nowMs).getUTCFullYear()
  for (let year = last - years + 1; year <= last; year++) {
    for (const table of ['transaction', 'ledger_posting']) {
      const boundary = firstIdAt('txn', Date.UTC(year))
      await client.query('select cut_partition($1, $2, $3)', [table, boundary, `${year - 1}_12`])
    }
  }
}

/** Businesses and accounts. A tenth of the tail's accounts are of test mode. */
async function seedOwners(client: pg.Client, sizes: GrowthSizes): Promise<void> {
  await client.query(
    `insert into business (id, name, alias, created_at)
      select ${idOf('biz', 'b')}, 'Business ' || b, 'Business ' || b, now()
      from generate_series(1, $1::int) b`,
    [sizes.businesses],
  )
  await client.query(
    `insert into account (id, business_id, live, reference, merchant_reference, bank, account_number,
        account_name, status, first_name, last_name, email, phone, details_hash, attempts,
        claimed_until, created_at)
      select ${idOf('acc', 'a')},
        ${idOf('biz', 'case when a <= $2 then 1 else 2 + a % ($3::int - 1) end')},
        a <= $2 or a % 10 <> 0, 'R-' || lpad(a::text, 20, 'A'), 'order-' || a, '9PSB',
        lpad(a::text, 10, '0'), 'Business/Ada Obi', 'ACTIVE', 'Ada', 'Obi',
        'ada.obi' || a || '@example.com', '08012345678', sha256(a::text::bytea), 1, now(), now()
      from generate_series(1, $1::int) a`,
    [sizes.accounts, growthAccounts(sizes), sizes.businesses],
  )
  await client.query('analyze business, account')
}

async function seedTransactions(
  client: pg.Client,
  sizes: GrowthSizes,
  chunk: Chunk,
): Promise<void> {
  const firstAccounts = growthAccounts(sizes)
  await client.query(
    `insert into transaction (id, business_id, live, account_id, bank, session_id, amount_minor, status,
        paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
        narration, recorded_by)
      select 'txn_' || $1::text || lpad(t::text, 16, '0'), a.business_id, a.live, a.id, a.bank,
        $5::text || lpad(session::text, 12, '0'), 100 + t % 10000000,
        case when t % ${FAILED_EVERY} = 0 then 'FAILED' when t % ${PENDING_EVERY} = 0 then 'PENDING'
          when t % ${REVERSED_EVERY} = 0 then 'REVERSED' else 'SUCCESS' end,
        paid_at, paid_at, 'Chinedu Okafor', '0123456789', '000013', 'GTBank Plc',
        'Transfer for order ' || t, 'notification'
      from (
        select t, $4::timestamptz + (t - $2::bigint) * $9::int * interval '1 ms' as paid_at,
          case when t % ${TAIL_EVERY} = 0 then $8::bigint + t / ${TAIL_EVERY}
            else t - t / ${TAIL_EVERY} end as session,
          case when t % ${TAIL_EVERY} = 0 then $6::bigint + 1 + (t / ${TAIL_EVERY}) % $7::bigint
            when t % ${BUSY_EVERY} = 0 then 1
            else 1 + (t - t / ${TAIL_EVERY}) % $6::bigint end as account
        from generate_series($2::bigint, $3::bigint) t
      ) p join account a on a.id = ${idOf('acc', 'account')}
      order by t`,
    [
      ...idsOf(chunk),
      new Date(chunk.startMs),
      sessionIdOf(0).slice(0, -12),
      firstAccounts,
      sizes.accounts - firstAccounts,
      growthSessions(sizes),
      chunk.intervalMs,
    ],
  )
}

/** A posting of each successful payment, its session, and its reversal where there is one. */
async function seedBooks(client: pg.Client, chunk: Chunk): Promise<void> {
  await client.query(
    `insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
        credit_account, amount_minor, created_at)
      select id, kind, business_id, live, debit, credit, amount_minor, created_at
      from transaction cross join lateral (
        values ('payment', 'clearing:' || bank, 'pending'),
          ('payment_reversal', 'pending', 'clearing:' || bank)
      ) p(kind, debit, credit)
      where ${inChunk('id')} and status in ('SUCCESS', 'REVERSED')
        and (kind = 'payment' or status = 'REVERSED')`,
    idsOf(chunk),
  )
  await client.query(
    `insert into payment_session (session_id, bank, live, transaction_id)
      select session_id, bank, live, id from transaction where ${inChunk('id')}`,
    idsOf(chunk),
  )
  await client.query(
    `insert into reversal (transaction_id, reason, reversed_at)
      select id, 'recalled', created_at from transaction
      where ${inChunk('id')} and status = 'REVERSED'`,
    idsOf(chunk),
  )
}

/** Every event has the same readable payload, of a realistic size. */
async function seedEvents(client: pg.Client, chunk: Chunk): Promise<void> {
  await client.query(
    `insert into outbox
        (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor)
      select 'evt_' || $1 || tag || substr(id, 16), business_id, live, kind, created_at, $4, id,
        sign * amount_minor
      from transaction cross join lateral (
        values ('PAYMENT_NOTIFICATION', '0', 1), ('PAYMENT_REVERSED', 'r', -1)
      ) e(kind, tag, sign)
      where ${inChunk('id')} and status in ('SUCCESS', 'REVERSED')
        and (sign = 1 or status = 'REVERSED')
      order by id, sign desc`,
    [...idsOf(chunk), PAYMENT_PAYLOAD],
  )
}

/**
 * Deliveries of the first business's first events, round robin; one in a hundred failed twice. The endpoints do not
 * subscribe to payments, so nothing is sent during a measurement.
 */
async function seedWebhooks(client: pg.Client, deliveries: number): Promise<void> {
  await client.query(
    `insert into webhook_endpoint (id, business_id, live, url, kinds, description, concurrency,
        after_position, created_at)
      select ${idOf('ep', 'e')}, $1, true, 'https://example.com/' || e, '{SETTLEMENT_COMPLETED}', '',
        10, 0, now()
      from generate_series(1, $2::int) e`,
    [SEEDED_BUSINESS, ENDPOINTS],
  )
  for (let from = 0; from < deliveries; from += CHUNK)
    await client.query(
      `insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims,
        created_at, completed_at, failure, started_at, latency_ms, status, response_body, error)
      select ${idOf('dlv', 'business_sequence')},
        ${idOf('ep', `1 + business_sequence % ${ENDPOINTS}`)}, position,
        case when failed then 'FAILED' else 'DELIVERED' end, 1 + failed::int, logged_at,
        1 + failed::int, logged_at, logged_at,
        case when failed then 'the last attempt failed' end, logged_at, 12,
        case when failed then 500 else 204 end, '',
        case when failed then 'responded with 500' else '' end
      from (select *, business_sequence % 101 = 0 as failed from event_log) l
      where business_id = $1 and live and business_sequence > $2
        and business_sequence <= $2::bigint + $3::bigint
      order by position`,
      [SEEDED_BUSINESS, from, Math.min(CHUNK, deliveries - from)],
    )
  // The latest attempt is in the row of its delivery.
  await client.query(
    `insert into webhook_attempt
        (delivery_id, number, position, started_at, latency_ms, status, response_body, error)
      select id, 1, position, created_at, 12, 500, '', 'responded with 500'
      from webhook_delivery where state = 'FAILED' order by id`,
  )
  await client.query('update webhook_dispatcher set position = (select position from sequencer)')
}

/** How many transactions, and how many deliveries, one commit inserts. */
const CHUNK = 25_000

/** Without years, payments are a second apart, or closer, so that all are from this time. The last is from now. */
const INTERVAL_MAX_MS = 1_000
const SPAN_MAX_MS = 30 * 86_400_000

const YEAR_MS = 365.25 * 86_400_000

/** Some consecutive transactions. Their ids are in the order of time, as all ids are. */
interface Chunk {
  readonly from: number
  readonly to: number
  /** Ten characters of time. */
  readonly time: string
  /** When the first of them was paid. */
  readonly startMs: number
  readonly intervalMs: number
}

function chunkOf(from: number, sizes: GrowthSizes, nowMs: number): Chunk {
  const { transactions, years = 0 } = sizes
  const to = Math.min(from + CHUNK - 1, transactions)
  const intervalMs =
    years > 0
      ? Math.floor((years * YEAR_MS) / transactions)
      : Math.min(INTERVAL_MAX_MS, Math.floor(SPAN_MAX_MS / transactions))
  const startMs = nowMs - (transactions - from + 1) * intervalMs
  const time = newId('txn', startMs).slice('txn_'.length, 'txn_'.length + 10)
  return { from, to, time, startMs, intervalMs }
}

/** The ids of a chunk's transactions, as a condition on a column. */
const inChunk = (column: string) =>
  `${column} between 'txn_' || $1::text || lpad($2::bigint::text, 16, '0')
    and 'txn_' || $1 || lpad($3::bigint::text, 16, '0')`

const idsOf = ({ time, from, to }: Chunk) => [time, from, to]

/** Throws if a row violates a foreign key: the seed inserts rows with the checks disabled. */
async function checkForeignKeys(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string; sql: string }>(
    `select conname as name, format(
        'select from %s c left join %s p on %s where %s and p.%I is null limit 1',
        conrelid::regclass, confrelid::regclass,
        string_agg(format('p.%I = c.%I', parent.attname, child.attname), ' and '),
        string_agg(format('c.%I is not null', child.attname), ' and '), min(parent.attname)) as sql
      from pg_constraint
      cross join lateral unnest(conkey, confkey) as pair(child, parent)
      join pg_attribute child on child.attrelid = conrelid and child.attnum = pair.child
      join pg_attribute parent on parent.attrelid = confrelid and parent.attnum = pair.parent
      where contype = 'f' and connamespace = 'public'::regnamespace
      group by pg_constraint.oid, conname, conrelid, confrelid`,
  )
  for (const { name, sql } of rows) {
    const { rowCount } = await client.query(sql)
    if (rowCount !== 0) throw new Error(`the seed breaks ${name}`)
  }
}

/** The event of a payment as it is stored: readable and of a realistic size. */
export const PAYMENT_PAYLOAD = encodeTransactionEvent(
  'PAYMENT_NOTIFICATION',
  {
    id: `txn_${'0'.repeat(26)}`,
    bank: '9PSB',
    sessionId: sessionIdOf(1),
    amountMinor: 150_050n,
    status: 'SUCCESS',
    settled: false,
    paidAtMs: Date.UTC(2026, 10, 20),
    createdAtMs: Date.UTC(2026, 10, 20),
    narration: 'Transfer for order 1',
    recordedBy: 'notification',
    payer: {
      name: 'Chinedu Okafor',
      accountNumber: '0123456789',
      bankCode: '000013',
      bankName: 'GTBank Plc',
    },
    account: {
      businessId: SEEDED_BUSINESS,
      live: true,
      reference: `R-${'A'.repeat(20)}`,
      merchantReference: 'order-1',
      accountNumber: '0000000001',
      accountName: 'Business/Ada Obi',
      firstName: 'Ada',
      lastName: 'Obi',
      email: 'ada.obi1@example.com',
      createdAtMs: Date.UTC(2026, 10, 20),
    },
  },
  `evt_${'0'.repeat(26)}`,
  Date.UTC(2026, 10, 20),
)
