import type { Pool } from 'pg'
import type { Book } from '../settlement.ts'
import { type Calendar, createCalendar } from '../terms/schedule.ts'
import { listAllHolidays } from '../terms/store.ts'
import { listWaiting, type Waiting } from './due-store.ts'

/**
 * The businesses and modes that are due at a time, in their order.
 *
 * @param forced whatever the schedule
 */
export async function* listDue(
  pool: Pool,
  nowMs: number,
  forced: boolean,
): AsyncGenerator<Waiting & { readonly calendar: Calendar }> {
  const holidays = await listAllHolidays(pool)
  for (let after: Book | undefined = BEFORE_WAITING; after !== undefined; ) {
    const { waiting, last }: Awaited<ReturnType<typeof listWaiting>> = await listWaiting(
      pool,
      after,
      WAITING_MAX,
    )
    for (const each of waiting) {
      const calendar = createCalendar(each.terms, holidays)
      if (forced || calendar.settlesAt(each.recordedAtMs) <= nowMs) yield { ...each, calendar }
    }
    after = last
  }
}

/** Before the first of all. */
const BEFORE_WAITING: Book = { businessId: '', live: false }

const WAITING_MAX = 500
