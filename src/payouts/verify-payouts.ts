import type { PoolClient } from 'pg'
import type { BalanceKey } from '../settlement/settlement.ts'
import type { VerifyPayouts } from '../settlement/verify-balance.ts'
import type { Discrepancy } from '../transactions/verify-transactions.ts'

type Verified = Awaited<ReturnType<VerifyPayouts>>

const DISCREPANCIES_MAX = 100

interface Row {
  readonly pending: string
  readonly available: string
  readonly fees: string
  readonly wrong: number
  readonly discrepancies: readonly Discrepancy[] | null
}

/**
 * Verifies the payouts of a balance in the snapshot of the client's transaction. Each payout is compared with its postings
 * and its events: it must have exactly one event for its request and one for each final status that it reached. With an
 * empty business id, verifies the payouts that return unmatched payments.
 */
export async function verifyPayouts(
  client: PoolClient,
  { businessId, live }: BalanceKey,
): Promise<Verified> {
  if (businessId === '') return verifyReturns(client)
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
        -- Shares belong to their recipients (verifyShares).
        where payout.business_id = $1 and payout.live = $2 and posting.business_id is null group by posting.payout_id
      ), refunded as (
        -- The sums of the refunds of each payment, for comparison with payout_refund.
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
  return toVerified(rows[0])
}

function toVerified(row: Partial<Row> | undefined): Verified {
  return {
    discrepancies: row?.discrepancies ?? [],
    count: row?.wrong ?? 0,
    pendingMinor: BigInt(row?.pending ?? 0),
    availableMinor: BigInt(row?.available ?? 0),
    feesMinor: BigInt(row?.fees ?? 0),
  }
}

/**
 * Verifies the payouts that return unmatched payments in one statement. Each payout is compared with its postings, which
 * belong to no balance, and with its unmatched payment, which must name the payout while it is in progress or paid.
 */
async function verifyReturns(client: PoolClient): Promise<Verified> {
  const { rows } = await client.query<Pick<Row, 'wrong' | 'discrepancies'>>(
    `with posted as (
        select posting.payout_id,
          sum(case 'reserved' when credit_account then posting.amount_minor when debit_account
            then -posting.amount_minor else 0 end) as reserved,
          sum(case 'unmatched' when debit_account then posting.amount_minor when credit_account
            then -posting.amount_minor else 0 end) as returned
        from payout_posting posting join payout on payout.id = posting.payout_id
        where payout.unmatched_payment_id is not null group by posting.payout_id
      ), state as (
        select payout.id, payout.status, payout.amount_minor, coalesce(posted.reserved, 0) as reserved,
          coalesce(posted.returned, 0) as returned, u.resolution, u.payout_id,
          payout.status in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED') as has_ended
        from payout left join posted on posted.payout_id = payout.id
          left join unmatched_payment u on u.id = payout.unmatched_payment_id
        where payout.unmatched_payment_id is not null
      ), verified as (
        select id, case
            when reserved <> case when has_ended or status = 'PAID' then 0 else amount_minor end
              or returned <> case when has_ended then 0 else amount_minor end
              then 'is ' || status || '; ' || reserved || ' of it are reserved, and ' || returned || ' are taken'
            when (payout_id is not distinct from id) is distinct from not has_ended
              or not has_ended and resolution <> case status when 'PAID' then 'RETURNED' else 'RETURNING' end
              then 'is ' || status || '; its unmatched payment is ' || coalesce(resolution, 'open') || ' by '
                || coalesce(payout_id, 'none')
          end as problem
        from state
        union all
        select u.id, 'is ' || u.resolution || ' by ' || u.payout_id || ', which does not return it'
        from unmatched_payment u left join payout on payout.id = u.payout_id and payout.unmatched_payment_id is not null
          and payout.unmatched_bank = u.bank and payout.refunded_session_id = u.session_id
        where u.payout_id is not null and payout.id is null
      )
      select count(problem)::int as wrong,
        (select json_agg(json_build_object('subject', id, 'problem', problem)) from (
          select id, problem from verified where problem is not null order by id limit ${DISCREPANCIES_MAX}
        ) d) as discrepancies
      from verified`,
  )
  return toVerified(rows[0])
}
