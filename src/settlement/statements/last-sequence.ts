import type { Queryable } from '../../postgres/in-transaction.ts'
import type { BalanceKey } from '../settlement.ts'
import { findBookedAt, type findSequenceBounds } from './store.ts'

/**
 * The last sequence number of a business below the first event that was booked at `atMs` or later.
 * Booking times rise with sequence numbers, so a binary search finds it. An event is booked when
 * the sequencer numbers it, shortly after it occurred.
 *
 * @param bounds the first and last sequence number of the business
 */
export async function lastSequenceBefore(
  client: Queryable,
  key: BalanceKey,
  atMs: number,
  bounds: NonNullable<Awaited<ReturnType<typeof findSequenceBounds>>>,
): Promise<bigint> {
  let low = bounds.first
  let high = bounds.last + 1n
  while (low < high) {
    // Rounds down, also for negative numbers.
    const middle = (low + high) >> 1n
    const bookedAtMs = await findBookedAt(client, key, middle)
    if (bookedAtMs !== undefined && bookedAtMs < atMs) low = middle + 1n
    else high = middle
  }
  return low - 1n
}
