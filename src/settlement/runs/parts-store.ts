import type { PoolClient } from 'pg'
import { appendEvents } from '../../events/append-events.ts'
import { appendPostings } from '../../transactions/append-postings.ts'
import type { Settlement } from '../settlement.ts'
import { moneyEvents } from '../statements/money-events.ts'
import type { WhenBusy } from './run-settlement.ts'
import { SETTLEMENT_COLUMNS, type SettlementRow, toSettlement } from './store.ts'

/**
 * A settlement that nobody else works at until the commit; undefined when it is completed.
 *
 * @param whenBusy what to do while somebody works at it: `skip` answers `busy`
 */
export async function lockRunning(
  client: PoolClient,
  id: string,
  whenBusy: WhenBusy,
): Promise<Settlement | 'busy' | undefined> {
  const running = `from settlement where id = $1 and status = 'RUNNING'`
  const { rows } = await client.query<SettlementRow>(
    `select ${SETTLEMENT_COLUMNS} ${running} for update ${whenBusy === 'skip' ? 'skip locked' : ''}`,
    [id],
  )
  if (rows[0] !== undefined) return toSettlement(rows[0])
  if (whenBusy === 'wait') return undefined
  const { rowCount } = await client.query(`select ${running}`, [id])
  return rowCount === 1 ? 'busy' : undefined
}

const SLICE = moneyEvents({
  where: ({ line }) =>
    `${line}.business_id = $2 and ${line}.live = $10
      and ${line}.business_sequence > $3 and ${line}.business_sequence <= $4`,
  order: 'asc',
  limit: '$5',
})

const SETTLEMENT_POSTING = {
  transaction_id: 'id',
  kind: 'move.kind',
  business_id: '$2',
  live: '$10',
  debit_account: 'move.debit',
  credit_account: 'move.credit',
  amount_minor: 'move.minor',
  created_at: '$6',
  settlement_id: '$1',
}

/**
 * Works off the next events of a locked settlement: the payments among them that are not settled or
 * reversed become settled, with their postings; with the last of them it is completed. Planned for the numbers at hand, and so not prepared.
 *
 * @returns the settlement after it
 */
export async function settleNext(
  client: PoolClient,
  settlement: Settlement,
  eventsMax: number,
  nowMs: number,
): Promise<Settlement> {
  const { rows } = await client.query<SettlementRow>(
    `with slice as materialized (
        select * from ${SLICE} e
      ), settled as (
        update transaction t set settled_at = $6
        from slice e
        where e.kind = 'PAYMENT_NOTIFICATION' and t.id = e.subject_id and t.business_id = $2
          and t.status = 'SUCCESS' and t.settled_at is null
        returning t.id, t.amount_minor, settlement_fee(t.amount_minor, $7, $8, $9) as fee_minor
      ), posted as (
        ${appendPostings(
          SETTLEMENT_POSTING,
          `from settled cross join lateral (
            select 'settlement' as kind, 'pending' as debit, 'available' as credit, amount_minor as minor
            union all select 'fee', 'available', 'fees', fee_minor where fee_minor > 0
          ) move`,
        )}
      ), total as (
        select count(*) as count, coalesce(sum(amount_minor), 0) as gross,
          coalesce(sum(fee_minor), 0) as fees from settled
      ), books as (
        select case when count(*) < $5 then $4::bigint else max(business_sequence) end as scanned,
          coalesce(sum(pending_minor), 0) as pending, coalesce(sum(available_minor), 0) as available,
          coalesce(sum(fees_minor), 0) as fees from slice
      )
      update settlement s set
        scanned_sequence = books.scanned,
        status = case when books.scanned = s.to_sequence then 'COMPLETED' else s.status end,
        completed_at = case when books.scanned = s.to_sequence then $6::timestamptz end,
        transaction_count = transaction_count + total.count,
        gross_minor = gross_minor + total.gross,
        fees_minor = fees_minor + total.fees,
        books_pending_minor = books_pending_minor + books.pending,
        books_available_minor = books_available_minor + books.available,
        books_fees_minor = books_fees_minor + books.fees
      from total cross join books
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

/** The event of a settlement, with what it does to the balances. */
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
