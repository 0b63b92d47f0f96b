import type { PoolClient } from 'pg'
import type { BalanceKey } from '../settlement/settlement.ts'
import type { Discrepancy } from '../transactions/ledger/verify-transactions.ts'

/** What the payouts of a balance add to it, and what is wrong with them. */
export interface VerifiedPayouts {
  readonly discrepancies: readonly Discrepancy[]
  readonly count: number
  readonly pendingMinor: bigint
  readonly availableMinor: bigint
  readonly feesMinor: bigint
}

const DISCREPANCIES_MAX = 100

interface Row {
  readonly pending: string
  readonly available: string
  readonly fees: string
  readonly wrong: number
  readonly discrepancies: readonly Discrepancy[] | null
}

/**
 * Verifies the payouts of a balance in the snapshot of the client's transaction: each against its postings, and against
 * its events, of which it has exactly one for its request and one for each final status that it reached.
 */
export async function verifyPayouts(
  client: PoolClient,
  { businessId, live }: BalanceKey,
): Promise<VerifiedPayouts> {
  const { rows } = await client.query<Row>(
    `with state as materialized (
        select snapshot, target, done_seq, base_seq, low_seq from sequencer
      ), event as (
        select subject_id, kind from money_event
        where business_id = $1 and live = $2 and (starts_with(kind, 'PAYOUT_') or starts_with(kind, 'REFUND_'))
        union all
        -- Committed and not yet numbered.
        select o.subject_id, o.kind from outbox o, state
        where o.seq > (select low_seq from state) and o.xid >= (select pg_snapshot_xmax(snapshot) from state)
          and o.xid < pg_snapshot_xmax(pg_current_snapshot()) and o.business_id = $1 and o.live = $2
          and (starts_with(o.kind, 'PAYOUT_') or starts_with(o.kind, 'REFUND_'))
          and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
            and pg_visible_in_snapshot(o.xid, state.target))
        union all
        select o.subject_id, o.kind from outbox o, state
        where o.seq > (select low_seq from state) and o.xid = any (array(select pg_snapshot_xip(snapshot) from state))
          and o.xid < pg_snapshot_xmax(pg_current_snapshot()) and o.business_id = $1 and o.live = $2
          and (starts_with(o.kind, 'PAYOUT_') or starts_with(o.kind, 'REFUND_'))
          and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
            and pg_visible_in_snapshot(o.xid, state.target))
      ), stated as (
        select subject_id, array_agg(substr(kind, 8) order by kind) as kinds from event group by subject_id
      ), posted as (
        select posting.payout_id,
          array_agg(posting.kind order by posting.kind) as kinds,
          sum(case 'pending' when credit_account then posting.amount_minor when debit_account then -posting.amount_minor
            else 0 end) as pending,
          sum(case 'available' when credit_account then posting.amount_minor when debit_account
            then -posting.amount_minor else 0 end) as available,
          sum(case when credit_account = 'fees' then posting.amount_minor else 0 end) as fees,
          sum(case 'reserved' when credit_account then posting.amount_minor when debit_account
            then -posting.amount_minor else 0 end) as reserved
        from payout_posting posting join payout on payout.id = posting.payout_id
        where payout.business_id = $1 and payout.live = $2 group by posting.payout_id
      ), refunded as (
        -- What the refunds of a payment must add up to, against what is kept of them.
        select transaction_id,
          sum(amount_minor) filter (where status not in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED')
            and (source, status) <> ('held', 'PAID')) as minor,
          coalesce(sum((select sum(case 'pending' when debit_account then amount_minor when credit_account
            then -amount_minor else 0 end) from payout_posting where payout_id = payout.id)), 0) as pending
        from payout where business_id = $1 and live = $2 and transaction_id is not null group by transaction_id
      ), verified as (
        select payout.id, case
            when posted.payout_id is null then 'has no postings'
            when reserved <> case when payout.completed_at is null then amount_minor + fee_minor + duty_minor else 0 end
              then 'is ' || status || '; ' || reserved || ' of it are reserved'
            when stated.kinds is distinct from case
                when status in ('PAID', 'FAILED') then array[status, 'REQUESTED']
                when status in ('REJECTED', 'CANCELLED', 'EXPIRED') then array['CANCELLED', 'REQUESTED']
                when status = 'RETURNED' then array['PAID', 'REQUESTED', 'RETURNED']
                else array['REQUESTED'] end
              then 'is ' || status || '; its events are ' || coalesce(array_to_string(stated.kinds, ', '), 'none')
          end as problem, pending, available, fees
        from payout left join posted on posted.payout_id = payout.id left join stated on stated.subject_id = payout.id
        where payout.business_id = $1 and payout.live = $2
        union all
        select transaction_id, 'has refunds of ' || coalesce(r.minor, 0) || ', of which ' || pending
          || ' of pending money; ' || coalesce(kept.refunded_minor, 0) || ' and ' || coalesce(kept.pending_minor, 0)
          || ' are kept', 0, 0, 0
        from refunded r left join payout_refund kept using (transaction_id)
        where (coalesce(r.minor, 0), pending) is distinct from (kept.refunded_minor, kept.pending_minor)
      )
      select coalesce(sum(pending), 0) as pending, coalesce(sum(available), 0) as available,
        coalesce(sum(fees), 0) as fees, count(problem)::int as wrong,
        (select json_agg(json_build_object('subject', id, 'problem', problem)) from (
          select id, problem from verified where problem is not null order by id limit ${DISCREPANCIES_MAX}
        ) d) as discrepancies
      from verified`,
    [businessId, live],
  )
  const [row] = rows
  return {
    discrepancies: row?.discrepancies ?? [],
    count: row?.wrong ?? 0,
    pendingMinor: BigInt(row?.pending ?? 0),
    availableMinor: BigInt(row?.available ?? 0),
    feesMinor: BigInt(row?.fees ?? 0),
  }
}
