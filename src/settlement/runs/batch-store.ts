import type { PoolClient } from 'pg'
import { assert } from '../../core/errors.ts'
import type { Share } from '../../transactions/message.ts'
import { FULL_MINOR, netOf, type Settlement } from '../settlement.ts'
import { SETTLEMENT_COLUMNS, type SettlementRow, toSettlement } from './store.ts'

/** What to do if another transaction holds the lock of the settlement. */
export type OnLocked = 'wait' | 'skip'

/**
 * Locks a running settlement until the commit.
 *
 * @param onLocked `wait`: waits for another transaction that holds the lock; `skip`: returns `locked`
 * @returns `full`: the settlement is completed, and the next settlement continues after it
 */
export async function lockRunning(
  client: PoolClient,
  id: string,
  onLocked: OnLocked,
): Promise<Settlement | 'locked' | 'completed' | 'full'> {
  const { rows } = await client.query<SettlementRow>(
    `select ${SETTLEMENT_COLUMNS} from settlement where id = $1 and status = 'RUNNING'
      for update ${onLocked === 'skip' ? 'skip locked' : ''}`,
    [id],
  )
  if (rows[0] !== undefined) return toSettlement(rows[0])
  const { rows: ended } = await client.query<{ is_running: boolean; is_full: boolean }>(
    `select status = 'RUNNING' as is_running, gross_minor >= ${FULL_MINOR} as is_full
      from settlement where id = $1`,
    [id],
  )
  if (ended[0]?.is_running) return 'locked'
  return ended[0]?.is_full ? 'full' : 'completed'
}

/** The shares of one recipient in a batch. */
type ShareRow = readonly [businessId: string, count: number, minor: string]

type BatchRow = SettlementRow & { readonly shares: readonly ShareRow[] }

const SETTLE_BATCH = `with batch as materialized (
      select * from (
        (select a.business_sequence, a.kind, a.subject_id, a.pending_minor, a.available_minor, a.fees_minor
          from archived_entry a
          where a.business_id = $2 and a.live = $10 and a.business_sequence > $3
            and a.business_sequence <= $4
          order by a.business_sequence limit $5)
        union all
        (select l.business_sequence, o.kind, o.subject_id, o.pending_minor, o.available_minor, o.fees_minor
          from event_log l
          cross join lateral (select * from outbox where seq = l.outbox_seq offset 0) o
          where l.business_id = $2 and l.live = $10 and l.business_sequence > $3
            and l.business_sequence <= $4
            and ((o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0) or o.nets_zero)
            -- The row of an archived event remains until its partition is dropped.
            and l.position > (select archived from event_retention where id = 1)
          order by l.business_sequence limit $5)
      ) event order by business_sequence limit $5
    ), settled as (
      -- The amount less refunds from pending. refunded_pending() belongs to the payouts domain, which depends on this one.
      select t.id, t.account_id, t.created_at, t.amount_minor - coalesce(r.minor, 0) as amount_minor,
        settlement_fee(t.amount_minor - coalesce(r.minor, 0), $7, $8, $9) as fee_minor
      from batch e join transaction t on t.id = e.subject_id
        left join lateral refunded_pending(t.id) r (minor) on true
      where e.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED') and t.business_id = $2
        and t.status = 'SUCCESS' and not exists (select from ledger_posting s
          where s.transaction_id = t.id and s.kind = 'settlement' offset 0)
    ), share as (
      select s.id, x.* from (
          select * from settled where exists (
            select from account_split where account_split.account_id = settled.account_id) offset 0
        ) s
        cross join lateral split_shares(s.account_id, s.created_at, s.amount_minor, s.fee_minor) x
    ), posted as (
      insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
        credit_account, amount_minor, created_at, settlement_id)
      select posting.id, posting.kind, posting.business_id, $10, posting.debit, posting.credit,
        posting.minor, $6, $1
      from (
        select s.id, p.kind, $2::text as business_id, p.debit, p.credit, p.minor
        from settled s cross join lateral (
          select 'settlement' as kind, 'pending' as debit, 'available' as credit, s.amount_minor as minor
          union all select 'fee', 'available', 'fees', s.fee_minor where s.fee_minor > 0
        ) p
        union all select id, 'split', $2::text, 'available', 'splits', sum(share_minor) from share group by id
        union all select id, 'share_' || number, business_id, 'splits', 'available', share_minor from share
      ) posting
    ), total as (
      select count(*) as count, coalesce(sum(amount_minor), 0) as gross,
        coalesce(sum(fee_minor), 0) as fees,
        (select coalesce(sum(share_minor), 0) from share) as splits from settled
    ), change as (
      select case when count(*) < $5 then $4::bigint else max(business_sequence) end as scanned,
        coalesce(sum(pending_minor), 0) as pending, coalesce(sum(available_minor), 0) as available,
        coalesce(sum(fees_minor), 0) as fees from batch
    ), ended as (
      select $11::bigint + total.gross >= ${FULL_MINOR} as is_full, change.scanned = $4 as is_scanned
      from total cross join change
    )
    update settlement s set
      scanned_sequence = change.scanned,
      to_sequence = case when is_full then change.scanned else s.to_sequence end,
      status = case when is_full or is_scanned then 'COMPLETED' else s.status end,
      completed_at = case when is_full or is_scanned then $6::timestamptz end,
      transaction_count = transaction_count + total.count,
      gross_minor = gross_minor + total.gross,
      fees_minor = fees_minor + total.fees,
      splits_minor = splits_minor + total.splits,
      balance_pending_minor = balance_pending_minor + change.pending,
      balance_available_minor = balance_available_minor + change.available,
      balance_fees_minor = balance_fees_minor + change.fees
    from total cross join change cross join ended
    where s.id = $1
    returning ${SETTLEMENT_COLUMNS}, (
      select coalesce(json_agg(json_build_array(business_id, count, minor::text) order by business_id), '[]')
      from (select x.business_id, count(*), sum(x.share_minor) as minor from share x group by 1) recipient
    ) as shares`

/**
 * Processes the next events of a locked settlement. It settles the payments among them that are neither settled nor
 * reversed, less their refunds from the pending balance, with their postings and the shares of other businesses. The last
 * batch completes the settlement, and so does a batch that makes it full. The statement is not prepared, so that PostgreSQL
 * plans it for the actual sequence numbers. The lock is taken first, so that no payment of the balance can be reversed
 * until the commit.
 *
 * @returns the settlement after the batch, and the shares of other businesses in its payments
 */
export async function settleBatch(
  client: PoolClient,
  settlement: Settlement,
  eventsMax: number,
  nowMs: number,
): Promise<{ readonly settlement: Settlement; readonly shares: readonly Share[] }> {
  await client.query('select lock_settled($1, $2, false)', [settlement.businessId, settlement.live])
  const { rows } = await client.query<BatchRow>(SETTLE_BATCH, [
    settlement.id,
    settlement.businessId,
    settlement.scannedSequence,
    settlement.toSequence,
    eventsMax,
    new Date(nowMs),
    settlement.feeFlatMinor,
    settlement.feeBasisPoints,
    settlement.feeCapMinor,
    settlement.live,
    settlement.grossMinor,
  ])
  assert(rows[0], 'a locked settlement exists')
  const { shares: rowsOfShares, ...row } = rows[0]
  const shares = rowsOfShares.map(([businessId, count, minor]) => {
    return { businessId, count, amountMinor: BigInt(minor) }
  })
  return { settlement: toSettlement(row), shares }
}

/** Appends the SETTLEMENT_COMPLETED event, with its balance changes. */
export async function insertSettlementEvent(
  client: PoolClient,
  settlement: Settlement,
  event: { readonly id: string; readonly occurredAtMs: number; readonly payload: Uint8Array },
): Promise<void> {
  await client.query(
    `insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id,
        pending_minor, available_minor, fees_minor)
      values ($1, $2, $9, 'SETTLEMENT_COMPLETED', $3, $4, $5, $6, $7, $8)`,
    [
      event.id,
      settlement.businessId,
      new Date(event.occurredAtMs),
      event.payload,
      settlement.id,
      -settlement.grossMinor,
      netOf(settlement),
      settlement.feesMinor,
      settlement.live,
    ],
  )
}
