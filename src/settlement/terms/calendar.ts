import { LRUCache } from 'lru-cache'
import type { Clock } from '../../core/clock.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { type Calendar, createCalendar } from './schedule.ts'
import { DEFAULT_TERMS, findTermsOf, listAllHolidays, type Terms } from './terms.ts'

/** The terms of a business and the calendar that follows from them and the holidays. */
interface TermsAndCalendar {
  readonly terms: Terms
  readonly calendar: Calendar
}

/** The current terms and calendars of some businesses. */
export async function readCalendars(
  client: Queryable,
  businessIds: ReadonlySet<string>,
): Promise<(businessId: string) => TermsAndCalendar> {
  const termsOf = await findTermsOf(client, businessIds)
  const holidays = await listAllHolidays(client)
  return (businessId) => {
    const terms = termsOf.get(businessId) ?? DEFAULT_TERMS
    return { terms, calendar: createCalendar(terms, holidays) }
  }
}

/** The current terms and calendar of a business. */
export async function readCalendar(
  client: Queryable,
  businessId: string,
): Promise<TermsAndCalendar> {
  return (await readCalendars(client, new Set([businessId])))(businessId)
}

const CACHED_MAX = 10_000

/** The longest time until a change of terms or holidays shows in due times. */
const CACHE_TTL_MS = 2_000

/** Finds the calendar of a business, for queries. Calendars are cached for two seconds. */
export type FindCalendar = (businessId: string) => Promise<Calendar>

export function createFindCalendar(pool: Queryable, clock: Clock): FindCalendar {
  const cache = new LRUCache<string, Promise<Calendar>>({
    max: CACHED_MAX,
    ttl: CACHE_TTL_MS,
    ttlResolution: 0,
    perf: clock,
  })
  return (businessId) => {
    const cached = cache.get(businessId)
    if (cached !== undefined) return cached
    const calendar = readCalendar(pool, businessId).then((found) => found.calendar)
    cache.set(businessId, calendar)
    // A failed read must not be cached.
    calendar.catch(() => cache.delete(businessId))
    return calendar
  }
}
