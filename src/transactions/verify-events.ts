import type { PoolClient } from 'pg'
import { decodeTransactionEvent } from './message.ts'
import type { Discrepancy, Scope } from './verify-transactions.ts'

const KINDS: ReadonlySet<string> = new Set([
  'PAYMENT_NOTIFICATION',
  'PAYMENT_ON_HOLD',
  'PAYMENT_ACCEPTED',
  'PAYMENT_RETURN_REQUESTED',
  'PAYMENT_REVERSED',
])

const NO_CHANGE = [0n, 0n, 0n]

interface Row {
  business_sequence: string
  kind: string | null
  subject_id: string | null
  pending_minor: string | null
  available_minor: string | null
  fees_minor: string | null
  event_id: string | null
  is_own: boolean
  payload: Buffer | null
  /** The amount of the transaction; null: it does not exist, or belongs to another business. */
  amount_minor: string | null
  session_id: string
  settled: boolean
  fee_minor: string
  split_minor: string
  is_held: boolean
  is_accepted: boolean
}

interface VerifiedEvents {
  readonly discrepancies: readonly Discrepancy[]
  /** The last sequence number, where the next page starts; undefined on the last page. */
  readonly last: bigint | undefined
}

/**
 * Compares the next events of a business with their transactions: the owner, the changes of the balances and, as long as
 * retention keeps it, the content.
 *
 * @param after a sequence number
 */
export async function verifyEvents(
  client: PoolClient,
  { businessId, live }: Scope,
  after: bigint,
  limit: number,
): Promise<VerifiedEvents> {
  const { rows } = await client.query<Row>(
    `select e.business_sequence, e.kind, e.subject_id, e.pending_minor, e.available_minor, e.fees_minor,
        e.event_id, coalesce(e.own_business_id = $1 and e.own_live = $2, true) as is_own,
        case when e.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ON_HOLD', 'PAYMENT_ACCEPTED',
            'PAYMENT_RETURN_REQUESTED', 'PAYMENT_REVERSED') then e.payload end as payload,
        t.amount_minor, t.session_id, exists (select from ledger_posting s
          where s.transaction_id = t.id and s.kind = 'settlement' offset 0) as settled,
        coalesce(f.amount_minor, 0) as fee_minor, coalesce(s.amount_minor, 0) as split_minor,
        v.hold is not null as is_held,
        coalesce(v.hold = 'ACCEPTED', false) as is_accepted
      from (
        -- The content of an event, from event_id to payload, is null once it has expired.
        (select a.business_sequence, a.kind, a.subject_id, a.pending_minor, a.available_minor,
            a.fees_minor, null::text as event_id, null::text as own_business_id,
            null::boolean as own_live, null::bytea as payload
          from archived_entry a
          where a.business_id = $1 and a.live = $2 and a.business_sequence > $3
          order by a.business_sequence limit $4)
        union all
        (select l.business_sequence, o.kind, o.subject_id, o.pending_minor, o.available_minor,
            o.fees_minor, l.event_id, o.business_id, o.live, o.payload
          from event_log l left join outbox o on o.seq = l.outbox_seq and o.event_id = l.event_id
          where l.business_id = $1 and l.live = $2 and l.business_sequence > $3
            and l.position > (select archived from event_retention where id = 1)
          order by l.business_sequence limit $4)
        order by business_sequence limit $4
      ) e
        left join transaction t on t.id = e.subject_id and t.business_id = $1 and t.live = $2
          and e.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ON_HOLD', 'PAYMENT_ACCEPTED',
            'PAYMENT_RETURN_REQUESTED', 'PAYMENT_REVERSED')
        left join payment_variance v on v.transaction_id = t.id
        left join ledger_posting f on f.transaction_id = t.id and f.kind = 'fee'
        left join ledger_posting s on s.transaction_id = t.id and s.kind = 'split'
      order by e.business_sequence`,
    [businessId, live, after, limit],
  )
  const last = rows.at(-1)
  return {
    discrepancies: rows.flatMap((row) => {
      const problem = problemOf(row, businessId)
      const at = `the event with sequence number ${row.business_sequence}`
      return problem === undefined
        ? []
        : [{ subject: row.subject_id ?? businessId, problem: `${at} ${problem}` }]
    }),
    last: last === undefined || rows.length < limit ? undefined : BigInt(last.business_sequence),
  }
}

function problemOf(row: Row, businessId: string): string | undefined {
  if (row.kind === null) return 'has no content'
  if (!row.is_own) return 'belongs to another business or mode'
  if (!KINDS.has(row.kind)) return undefined
  if (row.amount_minor === null) return 'refers to no transaction of this business and mode'
  const changes = [row.pending_minor, row.available_minor, row.fees_minor].join(', ')
  const expected = changesOf(row).join(', ')
  if (changes !== expected) {
    return `changes the pending, available and fee totals by ${changes} instead of ${expected}`
  }
  if (row.event_id === null) return undefined
  const content = row.payload === null ? undefined : decodeTransactionEvent(row.payload)
  if (content === undefined) return 'has a payload that describes no payment'
  const wrong = (
    [
      ['id', content.eventId, row.event_id],
      ['kind', content.kind, row.kind],
      ['business', content.businessId, businessId],
      ['transaction', content.transactionId, row.subject_id],
      ['session', content.sessionId, row.session_id],
      ['amount', `${content.amountMinor}`, row.amount_minor],
    ] as const
  ).find(([, stated, recorded]) => stated !== recorded)
  return wrong && `states the ${wrong[0]} ${wrong[1]} instead of ${wrong[2]}`
}

/** How an event changes the balances of its business: see TRANSITIONS. */
function changesOf({ kind, settled, ...row }: Row): bigint[] {
  const [amount, fee] = [BigInt(row.amount_minor ?? 0), BigInt(row.fee_minor)]
  const split = BigInt(row.split_minor)
  if (kind === 'PAYMENT_RETURN_REQUESTED' || kind === 'PAYMENT_ON_HOLD') return NO_CHANGE
  if (kind === 'PAYMENT_ACCEPTED') return [amount, 0n, 0n]
  // Earlier versions announced held payments with this kind.
  const isUncredited = kind === 'PAYMENT_NOTIFICATION' && row.pending_minor === '0'
  if (row.is_held && (isUncredited || !row.is_accepted)) return NO_CHANGE
  if (kind === 'PAYMENT_NOTIFICATION') return [amount, 0n, 0n]
  return settled ? [0n, fee + split - amount, -fee] : [-amount, 0n, 0n]
}

/** How many transactions one call returns. */
const DISCREPANCIES_MAX = 100

/**
 * Finds the transactions whose events do not match their status: one event of the payment once it was credited, and one
 * of its reversal. One statement compares all transactions of a business.
 *
 * @param after searches only the events after this sequence number
 */
export async function findWrongEventCounts(
  client: PoolClient,
  { businessId, live, fromId }: Scope,
  after: bigint,
): Promise<{ readonly discrepancies: readonly Discrepancy[]; readonly count: number }> {
  const { rows } = await client.query<{
    id: string
    status: string
    payments: number
    reversals: number
    count: number
  }>(
    `with state as materialized (
        select snapshot, target, done_seq, base_seq, low_seq from sequencer
      ), event as (
        select e.subject_id, e.kind from money_event e
        where e.business_id = $1 and e.live = $2 and e.business_sequence > $3
          and e.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ON_HOLD', 'PAYMENT_ACCEPTED',
            'PAYMENT_RETURN_REQUESTED', 'PAYMENT_REVERSED')
        -- The events of a payment that is held move no money.
        union all
        select subject_id, kind
        from (
          select o.subject_id, o.kind, o.pending_minor, o.available_minor, o.fees_minor, o.nets_zero
            from outbox o, state
            where o.seq > (select low_seq from state)
              and o.xid >= (select pg_snapshot_xmax(snapshot) from state)
              and o.xid < pg_snapshot_xmax(pg_current_snapshot())
              and o.business_id = $1 and o.live = $2
              and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
                and pg_visible_in_snapshot(o.xid, state.target))
          union all
          select o.subject_id, o.kind, o.pending_minor, o.available_minor, o.fees_minor, o.nets_zero
            from outbox o, state
            where o.seq > (select low_seq from state)
              and o.xid = any (array(select pg_snapshot_xip(snapshot) from state))
              and o.xid < pg_snapshot_xmax(pg_current_snapshot())
              and o.business_id = $1 and o.live = $2
              and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
                and pg_visible_in_snapshot(o.xid, state.target))
        ) unnumbered
        where kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ON_HOLD', 'PAYMENT_ACCEPTED',
            'PAYMENT_RETURN_REQUESTED', 'PAYMENT_REVERSED')
          and ((pending_minor, available_minor, fees_minor) <> (0, 0, 0) or nets_zero)
      ), counted as (
        select subject_id,
          (count(*) filter (where kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')))::int as payments,
          (count(*) filter (where kind = 'PAYMENT_REVERSED'))::int as reversals
        from event group by subject_id
      ), compared as (
        select t.id, t.status, coalesce(payments, 0) as payments, coalesce(reversals, 0) as reversals,
          -- An imported payment changed no balance.
          t.imported_settled is null and (v.hold is null or v.hold = 'ACCEPTED') as is_credited
        from transaction t left join counted on subject_id = t.id
          left join payment_variance v on v.transaction_id = t.id
        where t.business_id = $1 and t.live = $2 and t.id >= $4
      )
      select *, (count(*) over ())::int as count from compared
      where (payments, reversals)
        <> ((is_credited and status in ('SUCCESS', 'REVERSED'))::int, (is_credited and status = 'REVERSED')::int)
      order by id limit ${DISCREPANCIES_MAX}`,
    [businessId, live, after, fromId],
  )
  return {
    discrepancies: rows.map(({ id, status, payments, reversals }) => ({
      subject: id,
      problem: `is ${status}; it has ${payments} PAYMENT_NOTIFICATION and ${reversals} PAYMENT_REVERSED events`,
    })),
    count: rows[0]?.count ?? 0,
  }
}

interface ShareRow {
  subject_id: string
  kind: string
  stated: string
  posted: string
  count: number
}

/**
 * Compares the shares that a business has of payments of other businesses with its events, for each settlement and for
 * each reversed transaction.
 *
 * @returns also the sum that its postings of shares add to its available balance, in kobo
 */
export async function verifyShares(
  client: PoolClient,
  { businessId, live }: Pick<Scope, 'businessId' | 'live'>,
): Promise<{
  readonly discrepancies: readonly Discrepancy[]
  readonly count: number
  readonly available: bigint
}> {
  const { rows } = await client.query<ShareRow>(
    `with state as materialized (
        select snapshot, target, done_seq, base_seq, low_seq from sequencer
      ), posted as (
        select coalesce(settlement_id, transaction_id) as subject_id,
          case when settlement_id is null then 'SHARE_REVERSED' else 'SHARE_SETTLED' end as kind,
          sum(case when credit_account = 'available' then amount_minor else -amount_minor end) as minor
        from (
          select settlement_id, transaction_id, credit_account, amount_minor
          from ledger_posting where business_id = $1 and live = $2 and starts_with(kind, 'share_')
          union all
          -- The function belongs to the payouts domain, which depends on this one.
          select settlement_id, null, 'available', amount_minor from returned_shares($1, $2)
        ) share group by 1, 2
      ), event as (
        select subject_id, kind, sum(available_minor) as minor from (
          select e.subject_id, e.kind, e.available_minor from money_event e
          where e.business_id = $1 and e.live = $2 and e.kind in ('SHARE_SETTLED', 'SHARE_REVERSED')
          union all
          select subject_id, kind, available_minor
          from (
            select o.subject_id, o.kind, o.available_minor from outbox o, state
              where o.seq > (select low_seq from state)
                and o.xid >= (select pg_snapshot_xmax(snapshot) from state)
                and o.xid < pg_snapshot_xmax(pg_current_snapshot())
                and o.business_id = $1 and o.live = $2
                and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
                  and pg_visible_in_snapshot(o.xid, state.target))
            union all
            select o.subject_id, o.kind, o.available_minor from outbox o, state
              where o.seq > (select low_seq from state)
                and o.xid = any (array(select pg_snapshot_xip(snapshot) from state))
                and o.xid < pg_snapshot_xmax(pg_current_snapshot())
                and o.business_id = $1 and o.live = $2
                and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
                  and pg_visible_in_snapshot(o.xid, state.target))
          ) unnumbered
          where kind in ('SHARE_SETTLED', 'SHARE_REVERSED')
        ) each group by subject_id, kind
      )
      select subject_id, kind, coalesce(e.minor, 0) as stated, coalesce(p.minor, 0) as posted,
        (count(*) over ())::int as count
      from event e full join posted p using (subject_id, kind)
      where e.minor is distinct from p.minor order by subject_id, kind limit ${DISCREPANCIES_MAX}`,
    [businessId, live],
  )
  const sum = await client.query<{ available: string }>(
    `select coalesce(sum(case when credit_account = 'available' then amount_minor else -amount_minor end), 0)
        + (select coalesce(sum(amount_minor), 0) from returned_shares($1, $2)) as available
      from ledger_posting where business_id = $1 and live = $2 and starts_with(kind, 'share_')`,
    [businessId, live],
  )
  return {
    discrepancies: rows.map((row) => ({
      subject: row.subject_id,
      problem: `${businessId} has ${row.kind} events of ${row.stated}; its postings add up to ${row.posted}`,
    })),
    count: rows[0]?.count ?? 0,
    available: BigInt(sum.rows[0]?.available ?? 0),
  }
}
