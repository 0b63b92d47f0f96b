import type { Database } from '../../postgres/orm.ts'
import type { BalanceKey } from '../settlement.ts'
import { type Calendar, createCalendar } from '../terms/schedule.ts'
import { findTermsOf, listAllHolidays } from '../terms/store.ts'
import { DEFAULT_TERMS, type Terms } from '../terms/terms.ts'
import { listUnsettled, type UnsettledBalance } from './due-store.ts'

export interface DueBalance extends UnsettledBalance {
  readonly terms: Terms
  readonly calendar: Calendar
}

/**
 * The balances that are due at a time, ordered by business and mode.
 *
 * @param forced ignores the schedule
 */
export async function* listDue(
  { pool, orm }: Database,
  nowMs: number,
  forced: boolean,
): AsyncGenerator<DueBalance> {
  const em = orm.em.fork()
  const holidays = await listAllHolidays(em)
  for (let after: BalanceKey | undefined = BEFORE_FIRST; after !== undefined; ) {
    const { unsettled, last }: Awaited<ReturnType<typeof listUnsettled>> = await listUnsettled(
      pool,
      after,
      PAGE_MAX,
    )
    const termsOf = await findTermsOf(em, new Set(unsettled.map((each) => each.businessId)))
    for (const each of unsettled) {
      const terms = termsOf.get(each.businessId) ?? DEFAULT_TERMS
      const calendar = createCalendar(terms, holidays)
      if (forced || calendar.settlesAt(each.oldestRecordedAtMs) <= nowMs) {
        yield { ...each, terms, calendar }
      }
    }
    after = last
  }
}

/** Sorts before every balance. */
const BEFORE_FIRST: BalanceKey = { businessId: '', live: false }

const PAGE_MAX = 500
