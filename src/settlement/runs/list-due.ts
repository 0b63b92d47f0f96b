import type { Pool } from 'pg'
import type { BalanceKey } from '../settlement.ts'
import { type Calendar, createCalendar } from '../terms/schedule.ts'
import { listAllHolidays } from '../terms/store.ts'
import { listUnsettled, type UnsettledBalance } from './due-store.ts'

/**
 * The balances that are due at a time, ordered by business and mode.
 *
 * @param forced ignores the schedule
 */
export async function* listDue(
  pool: Pool,
  nowMs: number,
  forced: boolean,
): AsyncGenerator<UnsettledBalance & { readonly calendar: Calendar }> {
  const holidays = await listAllHolidays(pool)
  for (let after: BalanceKey | undefined = BEFORE_FIRST; after !== undefined; ) {
    const { unsettled, last }: Awaited<ReturnType<typeof listUnsettled>> = await listUnsettled(
      pool,
      after,
      PAGE_MAX,
    )
    for (const each of unsettled) {
      const calendar = createCalendar(each.terms, holidays)
      if (forced || calendar.settlesAt(each.oldestRecordedAtMs) <= nowMs)
        yield { ...each, calendar }
    }
    after = last
  }
}

/** Sorts before every balance. */
const BEFORE_FIRST: BalanceKey = { businessId: '', live: false }

const PAGE_MAX = 500
