import type { MikroORM } from '@mikro-orm/postgresql'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../core/clock.ts'
import { type Calendar, createCalendar } from './schedule.ts'
import { findTerms, listAllHolidays } from './store.ts'
import { DEFAULT_TERMS, type Terms } from './terms.ts'

/** The current terms and calendar of a business. */
export async function readCalendar(
  orm: MikroORM,
  businessId: string,
): Promise<{ readonly terms: Terms; readonly calendar: Calendar }> {
  const em = orm.em.fork()
  const terms = (await findTerms(em, businessId)) ?? DEFAULT_TERMS
  return { terms, calendar: createCalendar(terms, await listAllHolidays(em)) }
}

const CACHED_MAX = 10_000

/** The longest time until a change of terms or holidays shows in due times. */
const CACHE_TTL_MS = 2_000

/** Finds the calendar of a business, for queries. Calendars are cached for two seconds. */
export type FindCalendar = (businessId: string) => Promise<Calendar>

export function createFindCalendar(orm: MikroORM, clock: Clock): FindCalendar {
  const cache = new LRUCache<string, Promise<Calendar>>({
    max: CACHED_MAX,
    ttl: CACHE_TTL_MS,
    ttlResolution: 0,
    perf: clock,
  })
  return (businessId) => {
    const cached = cache.get(businessId)
    if (cached !== undefined) return cached
    const calendar = readCalendar(orm, businessId).then((found) => found.calendar)
    cache.set(businessId, calendar)
    // A failed read must not be cached.
    calendar.catch(() => cache.delete(businessId))
    return calendar
  }
}
