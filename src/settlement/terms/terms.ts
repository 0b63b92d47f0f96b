import { LRUCache } from 'lru-cache'
import type { Pool } from 'pg'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { getBusiness } from '../../businesses/get-business.ts'
import type { Clock } from '../../core/clock.ts'
import { inTransaction } from '../../postgres/in-transaction.ts'
import type { Database } from '../../postgres/orm.ts'
import { type Calendar, createCalendar, type Schedule } from './schedule.ts'
import { findTerms, listAllHolidays, upsertTerms } from './store.ts'

/**
 * The fee of a payment: the flat fee plus the proportional fee, rounded to the nearest kobo, half
 * a kobo up. It exceeds neither the cap nor the payment. SQL function: `settlement_fee`.
 */
export interface Fee {
  readonly feeFlatMinor: bigint
  /** Hundredths of a percent. */
  readonly feeBasisPoints: number
  /** 0: no maximum. */
  readonly feeCapMinor: bigint
}

export interface Terms extends Schedule, Fee {}

/** For a business without its own terms: due when the next working day starts, without a fee. */
export const DEFAULT_TERMS: Terms = {
  schedule: 'WORKING_DAYS',
  workingDays: 1,
  cutOffMinutes: 0,
  feeFlatMinor: 0n,
  feeBasisPoints: 0,
  feeCapMinor: 0n,
}

/** @throws Fault not_found if the business does not exist */
export async function getTerms(database: Database, businessId: string): Promise<Terms> {
  await getBusiness(database, businessId)
  return (await findTerms(database.pool, businessId)) ?? DEFAULT_TERMS
}

/** @throws Fault not_found if the business does not exist */
export async function updateTerms(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  businessId: string,
  terms: Terms,
  actor: Actor,
): Promise<Terms> {
  await getBusiness(database, businessId)
  await inTransaction(database.pool, async (client) => {
    await upsertTerms(client, businessId, terms, clock.now())
    const { feeFlatMinor, feeCapMinor, ...rest } = terms
    await appendAudit(client, actor, {
      action: 'terms.update',
      targetId: businessId,
      businessId,
      details: { ...rest, feeFlatMinor: `${feeFlatMinor}`, feeCapMinor: `${feeCapMinor}` },
    })
  })
  return terms
}

/** The current terms and calendar of a business. */
export async function readCalendar(
  pool: Pool,
  businessId: string,
): Promise<{ readonly terms: Terms; readonly calendar: Calendar }> {
  const terms = (await findTerms(pool, businessId)) ?? DEFAULT_TERMS
  return { terms, calendar: createCalendar(terms, await listAllHolidays(pool)) }
}

const CACHED_MAX = 10_000

/** The longest time until a change of terms or holidays shows in due times. */
const CACHE_TTL_MS = 2_000

/** Finds the calendar of a business, for queries. Calendars are cached for two seconds. */
export type FindCalendar = (businessId: string) => Promise<Calendar>

export function createFindCalendar(pool: Pool, clock: Clock): FindCalendar {
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
