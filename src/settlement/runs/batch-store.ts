import type { PoolClient } from 'pg'
import { appendEvents } from '../../events/append-events.ts'
import { moneyEvents } from '../../events/balance-changes/balance-changes.sql.ts'
import { appendPostings } from '../../transactions/ledger/append-postings.ts'
import {
  CREDITS_PAYMENT,
  IS_UNSETTLED,
  joinTransaction,
  lockSettled,
} from '../../transactions/transaction.sql.ts'
import type { Settlement } from '../settlement.ts'
import { SETTLEMENT_COLUMNS, type SettlementRow, toSettlement } from './store.ts'

/** What to do if another transaction holds the lock of the settlement. */
export type OnLocked = 'wait' | 'skip'

/**
 * Locks a running settlement until the commit.
 *
 * @param onLocked what to do if another transaction holds the lock: `skip` returns `locked`
 * @returns undefined if the settlement is completed
 */
export async function lockRunning(
  client: PoolClient,
  id: string,
  onLocked: OnLocked,
): Promise<Settlement | 'locked' | undefined> {
  const running = `from settlement where id = $1 and status = 'RUNNING'`
  const { rows } = await client.query<SettlementRow>(
    `select ${SETTLEMENT_COLUMNS} ${running} for update ${onLocked === 'skip' ? 'skip locked' : ''}`,
    [id],
  )
  if (rows[0] !== undefined) return toSettlement(rows[0])
  if (onLocked === 'wait') return undefined
  const { rowCount } = await client.query(`select ${running}`, [id])
  return rowCount === 1 ? 'locked' : undefined
}

const BATCH = moneyEvents({
  where: ({ log }) =>
    `${log}.business_id = $2 and ${log}.live = $10
      and ${log}.business_sequence > $3 and ${log}.business_sequence <= $4`,
  order: 'asc',
  limit: '$5',
})

const SETTLEMENT_POSTING = {
  transaction_id: 'id',
  kind: 'posting.kind',
  business_id: '$2',
  live: '$10',
  debit_account: 'posting.debit',
  credit_account: 'posting.credit',
  amount_minor: 'posting.minor',
  created_at: '$6',
  settlement_id: '$1',
}

/**
 * Processes the next events of a locked settlement: settles the payments among them that are
 * neither settled nor reversed, with their postings. The last batch completes the settlement. The
 * statement is not prepared, so that PostgreSQL plans it for the actual sequence numbers. No payment of the
 * balance is reversed from before it reads to the commit.
 *
 * @returns the settlement after the batch
 */
export async function settleBatch(
  client: PoolClient,
  settlement: Settlement,
  eventsMax: number,
  nowMs: number,
): Promise<Settlement> {
  await client.query(`select ${lockSettled('settlement', '$1', '$2')}`, [
    settlement.businessId,
    settlement.live,
  ])
  const { rows } = await client.query<SettlementRow>(
    `with batch as materialized (
        select * from ${BATCH} e
      ), settled as (
        select t.id, t.amount_minor, settlement_fee(t.amount_minor, $7, $8, $9) as fee_minor
        from batch e ${joinTransaction('e.subject_id')}
        where e.kind ${CREDITS_PAYMENT} and t.business_id = $2 and ${IS_UNSETTLED}
      ), posted as (
        ${appendPostings(
          SETTLEMENT_POSTING,
          `from settled cross join lateral (
            select 'settlement' as kind, 'pending' as debit, 'available' as credit, amount_minor as minor
            union all select 'fee', 'available', 'fees', fee_minor where fee_minor > 0
          ) posting`,
        )}
      ), total as (
        select count(*) as count, coalesce(sum(amount_minor), 0) as gross,
          coalesce(sum(fee_minor), 0) as fees from settled
      ), change as (
        select case when count(*) < $5 then $4::bigint else max(business_sequence) end as scanned,
          coalesce(sum(pending_minor), 0) as pending, coalesce(sum(available_minor), 0) as available,
          coalesce(sum(fees_minor), 0) as fees from batch
      )
      update settlement s set
        scanned_sequence = change.scanned,
        status = case when change.scanned = s.to_sequence then 'COMPLETED' else s.status end,
        completed_at = case when change.scanned = s.to_sequence then $6::timestamptz end,
        transaction_count = transaction_count + total.count,
        gross_minor = gross_minor + total.gross,
        fees_minor = fees_minor + total.fees,
        balance_pending_minor = balance_pending_minor + change.pending,
        balance_available_minor = balance_available_minor + change.available,
        balance_fees_minor = balance_fees_minor + change.fees
      from total cross join change
      where s.id = $1
      returning ${SETTLEMENT_COLUMNS}`,
    [
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
    ],
  )
  return toSettlement(rows[0] as SettlementRow)
}

/** Appends the SETTLEMENT_COMPLETED event, with its balance changes. */
export async function insertSettlementEvent(
  client: PoolClient,
  settlement: Settlement,
  event: { readonly id: string; readonly occurredAtMs: number; readonly payload: Uint8Array },
): Promise<void> {
  await client.query(
    appendEvents({
      event_id: '$1',
      business_id: '$2',
      live: '$9',
      kind: "'SETTLEMENT_COMPLETED'",
      occurred_at: '$3',
      payload: '$4',
      subject_id: '$5',
      pending_minor: '$6',
      available_minor: '$7',
      fees_minor: '$8',
    }),
    [
      event.id,
      settlement.businessId,
      new Date(event.occurredAtMs),
      event.payload,
      settlement.id,
      -settlement.grossMinor,
      settlement.grossMinor - settlement.feesMinor,
      settlement.feesMinor,
      settlement.live,
    ],
  )
}
