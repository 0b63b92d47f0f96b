import type { PoolClient } from 'pg'
import type { Queryable } from '../postgres/in-transaction.ts'

/** One inconsistency in the ledger. */
export interface Discrepancy {
  /** A transaction id, a settlement id or a balance. */
  readonly subject: string
  readonly problem: string
}

/** The transactions of a business in one mode. */
export interface Scope {
  readonly businessId: string
  readonly live: boolean
  /** Only transactions with this id or a later id. */
  readonly fromId: string
}

/** The sort key of a transaction. */
export interface TransactionKey {
  readonly paidAtMs: number
  readonly id: string
}

/** The result of verifying one page of transactions with their postings. */
interface VerifiedPage {
  readonly transactions: number
  readonly postings: number
  readonly discrepancies: readonly Discrepancy[]
  readonly discrepancyCount: number
  /** The sums of the postings of the business itself by ledger account, in kobo. */
  readonly pending: bigint
  readonly available: bigint
  readonly fees: bigint
  /** The settlements that the postings belong to. */
  readonly settlementIds: readonly string[]
  /** The last transaction, where the next page starts; undefined on the last page. */
  readonly last: TransactionKey | undefined
}

/** How many discrepancies of one page are returned. */
const DISCREPANCIES_MAX = 100

interface Row {
  transactions: number
  postings: number
  last_id: string | null
  last_paid_at_ms: number
  discrepancies: readonly Discrepancy[] | null
  discrepancy_count: number
  pending: string
  available: string
  fees: string
  settlement_ids: readonly string[]
}

/**
 * Verifies the next transactions of a business in the order of their payment. The status of a transaction
 * and whether it has a settlement posting determine the postings it must have (see ledger.ts).
 */
export async function verifyTransactions(
  client: PoolClient,
  { businessId, live, fromId }: Scope,
  after: TransactionKey,
  limit: number,
): Promise<VerifiedPage> {
  const { rows } = await client.query<Row>(
    `with page as materialized (
        select id, business_id, live, session_id, bank, amount_minor, status, paid_at, imported_settled
        from transaction where business_id = $1 and live = $2 and (paid_at, id) > ($3, $4) and id >= $5
        order by paid_at, id limit $6
      ), posting as materialized (
        select * from ledger_posting where transaction_id = any (array(select id from page))
      ), posted as (
        select t.id, count(p.kind) as postings,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'payment'), 0) as payment,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'settlement'), 0) as settlement,
          coalesce(bool_or(p.kind = 'settlement'), false) as is_settled,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'fee'), 0) as fee,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'split'), 0) as split,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'acceptance'), 0) as acceptance,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'payment_reversal'), 0) as payment_reversal,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'settlement_reversal'), 0) as settlement_reversal,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'fee_reversal'), 0) as fee_reversal,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'split_reversal'), 0) as split_reversal,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'acceptance_reversal'), 0) as acceptance_reversal,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'payment' and p.credit_account = 'held'), 0) as held,
          -- The sum of the shares, and each share with its recipient, settled or reversed.
          coalesce(sum(p.amount_minor) filter (where p.kind like 'share__'), 0) as shares,
          jsonb_object_agg(left(p.kind, 7), jsonb_build_array(p.business_id, p.amount_minor))
            filter (where p.kind like 'share__') as divided,
          coalesce(sum(p.amount_minor) filter (where p.kind like 'share___reversal'), 0) as shares_reversal,
          jsonb_object_agg(left(p.kind, 7), jsonb_build_array(p.business_id, p.amount_minor))
            filter (where p.kind like 'share___reversal') as divided_reversal,
          coalesce(bool_and((p.business_id = t.business_id) <> starts_with(p.kind, 'share_')
            and p.live = t.live), true) as is_own
        from page t left join posting p on p.transaction_id = t.id group by t.id
      ), verified as (
        select t.id, case
          when session.transaction_id is distinct from t.id then 'is not found by its session'
          when not is_own then 'a posting belongs to another business or mode'
          when t.imported_settled is not null and postings > 0
            then 'was imported, so it has no postings, but ' || postings || ' are there'
          when t.imported_settled is null
            and payment <> case when t.status in ('SUCCESS', 'REVERSED') then t.amount_minor else 0 end
            then 'is ' || t.status || ' with amount ' || t.amount_minor
              || '; its payment postings add up to ' || payment
          when is_settled and settlement <> payment - coalesce(refunded.minor, 0)
            then 'is ' || t.status || ' with amount ' || t.amount_minor
              || coalesce(', of which ' || nullif(refunded.minor, 0) || ' were refunded before', '')
              || '; its settlement postings add up to ' || settlement
          when (held, acceptance) <> (case when v.hold is null then 0 else payment end,
              case when v.hold = 'ACCEPTED' then payment else 0 end) or settlement > payment - held + acceptance
            then 'is ' || coalesce(v.hold, 'not held') || '; its postings hold ' || held || ', accept '
              || acceptance || ' and settle ' || settlement
          when fee > settlement then 'the fee of ' || fee || ' exceeds the settled amount'
          when fee + split > settlement
            then 'the fee of ' || fee || ' and the split of ' || split || ' exceed the settled amount'
          when split <> shares then 'splits ' || split || '; its shares add up to ' || shares
          when case when t.status = 'REVERSED'
              then (payment_reversal, settlement_reversal, fee_reversal, acceptance_reversal, split_reversal)
                <> (payment, settlement, fee, acceptance, split) or divided_reversal is distinct from divided
              else payment_reversal + settlement_reversal + fee_reversal + acceptance_reversal + split_reversal
                + shares_reversal > 0 end
            then 'is ' || t.status || '; its reversal postings add up to ' || payment_reversal
              || ' (payment), ' || settlement_reversal || ' (settlement) and '
              || fee_reversal || ' (fee)' || case when split + split_reversal + shares_reversal > 0
                then ', ' || split_reversal || ' (split) and ' || shares_reversal || ' (shares)' else '' end
          end as problem
        from page t join posted using (id) left join payment_variance v on v.transaction_id = t.id
        -- The domain of payouts, which is above this one, has the function.
        left join lateral refunded_pending(t.id) refunded (minor) on true
        left join lateral (
          select transaction_id from payment_session s
          where s.session_id = t.session_id and s.bank = t.bank and s.live = t.live offset 0
        ) session on true
      )
      select (select count(*)::int from page) as transactions,
        (select count(*)::int from posting) as postings,
        last.id as last_id, round(date_part('epoch', last.paid_at) * 1000) as last_paid_at_ms,
        (select count(*)::int from verified where problem is not null) as discrepancy_count,
        (select json_agg(json_build_object('subject', id, 'problem', problem)) from (
          select id, problem from verified where problem is not null order by id limit ${DISCREPANCIES_MAX}
        ) d) as discrepancies, sums.*,
        array(select distinct settlement_id from posting where settlement_id is not null) as settlement_ids
      from (
        -- Of the business itself, by ledger account.
        select coalesce(sum(case when credit_account = 'pending' then amount_minor else -amount_minor end)
            filter (where 'pending' in (debit_account, credit_account)), 0) as pending,
          coalesce(sum(case when credit_account = 'available' then amount_minor else -amount_minor end)
            filter (where 'available' in (debit_account, credit_account)), 0) as available,
          coalesce(sum(case when credit_account = 'fees' then amount_minor else -amount_minor end)
            filter (where 'fees' in (debit_account, credit_account)), 0) as fees
        from posting where business_id = $1) sums
        left join (select id, paid_at from page order by paid_at desc, id desc limit 1) last on true`,
    [
      businessId,
      live,
      Number.isFinite(after.paidAtMs) ? new Date(after.paidAtMs) : '-infinity',
      after.id,
      fromId,
      limit,
    ],
  )
  const row = rows[0] as Row
  return {
    transactions: row.transactions,
    postings: row.postings,
    discrepancies: row.discrepancies ?? [],
    discrepancyCount: row.discrepancy_count,
    pending: BigInt(row.pending),
    available: BigInt(row.available),
    fees: BigInt(row.fees),
    settlementIds: row.settlement_ids,
    last:
      row.last_id === null || row.transactions < limit
        ? undefined
        : { paidAtMs: row.last_paid_at_ms, id: row.last_id },
  }
}

/** How many transactions the database expects to have, by its statistics. */
export async function estimateTransactions(client: Queryable): Promise<number> {
  const { rows } = await client.query<{ estimate: number }>(
    `select coalesce(sum(greatest(c.reltuples, 0)), 0)::float8 as estimate
      from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'transaction'::regclass`,
  )
  return rows[0]?.estimate ?? 0
}

/**
 * The transaction ids of postings without a transaction, in the next postings by transaction id.
 *
 * @returns `last`: where the next page starts; undefined on the last page
 */
export async function findOrphanPostings(
  client: Queryable,
  after: string,
  limit: number,
): Promise<{ readonly ids: readonly string[]; readonly last: string | undefined }> {
  const { rows } = await client.query<{
    ids: readonly string[]
    count: number
    last: string | null
  }>(
    `with page as materialized (
        select transaction_id from ledger_posting where transaction_id > $1 order by transaction_id limit $2
      )
      select (select count(*)::int from page) as count, (select max(transaction_id) from page) as last,
        array(select distinct transaction_id from page p
          where not exists (select from transaction t where t.id = p.transaction_id)
          limit ${DISCREPANCIES_MAX}) as ids`,
    [after, limit],
  )
  const { ids = [], count = 0, last = null } = rows[0] ?? {}
  return { ids, last: count < limit ? undefined : (last ?? undefined) }
}

/** The key of a session. */
interface SessionPlace {
  readonly sessionId: string
  readonly bank: string
  readonly live: boolean
}

/** A key before all sessions. */
export const FIRST_SESSION: SessionPlace = { sessionId: '', bank: '', live: false }

interface SessionRow {
  session_id: string
  bank: string
  live: boolean
  transaction_id: string
  is_own: boolean
  is_last: boolean
}

/**
 * Verifies that the transactions of the next sessions exist and have the same keys. The reverse is verified with each
 * transaction.
 *
 * @returns `last`: where the next page starts; undefined on the last page
 */
export async function verifySessions(
  client: Queryable,
  after: SessionPlace,
  limit: number,
): Promise<{ readonly discrepancies: Discrepancy[]; readonly last: SessionPlace | undefined }> {
  const { rows } = await client.query<SessionRow>(
    `with page as materialized (
        select session_id, bank, live, transaction_id,
          row_number() over (order by session_id, bank, live) = $4 as is_last
        from payment_session where (session_id, bank, live) > ($1, $2, $3::boolean)
        order by session_id, bank, live limit $4
      ), compared as (
        select p.*,
          coalesce((t.session_id, t.bank, t.live) = (p.session_id, p.bank, p.live), false) as is_own
        from page p left join lateral (
          select session_id, bank, live from transaction t where t.id = p.transaction_id offset 0
        ) t on true
      )
      select * from compared where is_last or not is_own order by session_id, bank, live`,
    [after.sessionId, after.bank, after.live, limit],
  )
  const last = rows.find((row) => row.is_last)
  return {
    discrepancies: rows
      .filter((row) => !row.is_own)
      .map((row) => ({
        subject: row.transaction_id,
        problem: `is named by the session ${row.session_id}, but is not its transaction`,
      })),
    last: last && { sessionId: last.session_id, bank: last.bank, live: last.live },
  }
}
