import type { Queryable } from '../../postgres/in-transaction.ts'
import type { Book } from '../settlement.ts'
import { findBookedAt, type findEnds } from './store.ts'

/**
 * The number before the first event of a business that was booked at a time or later: times rise
 * with numbers, so that halving finds it whatever the number of events. An event is booked when it
 * gets its number, which is a moment after it occurred.
 *
 * @param ends its first and last entry
 */
export async function lastSequenceBefore(
  client: Queryable,
  book: Book,
  atMs: number,
  ends: NonNullable<Awaited<ReturnType<typeof findEnds>>>,
): Promise<bigint> {
  let low = ends.first
  let high = ends.last + 1n
  while (low < high) {
    // Rounded down, also below zero.
    const middle = (low + high) >> 1n
    const bookedAtMs = await findBookedAt(client, book, middle)
    if (bookedAtMs !== undefined && bookedAtMs < atMs) low = middle + 1n
    else high = middle
  }
  return low - 1n
}
