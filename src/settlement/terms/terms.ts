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
 * What a business pays for each payment: the flat fee and the part, rounded to the kobo, half a
 * kobo up; no more than the cap, and never more than the payment. `settlement_fee` in the
 * migration computes it.
 */
export interface Fee {
  readonly feeFlatMinor: bigint
  /** Hundredths of a percent. */
  readonly feeBasisPoints: number
  /** 0: none. */
  readonly feeCapMinor: bigint
}

export interface Terms extends Schedule, Fee {}

/** Of a business that has none of its own: at the beginning of the next working day, for nothing. */
export const DEFAULT_TERMS: Terms = {
  schedule: 'WORKING_DAYS',
  workingDays: 1,
  cutOffMinutes: 0,
  feeFlatMinor: 0n,
  feeBasisPoints: 0,
  feeCapMinor: 0n,
}

/** @throws Fault not_found when there is no such business */
export async function getTerms(database: Database, businessId: string): Promise<Terms> {
  await getBusiness(database, businessId)
  return (await findTerms(database.pool, businessId)) ?? DEFAULT_TERMS
}

/** @throws Fault not_found when there is no such business */
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

/** Terms and calendar of a business, as they are now. */
export async function readCalendar(
  pool: Pool,
  businessId: string,
): Promise<{ readonly terms: Terms; readonly calendar: Calendar }> {
  const terms = (await findTerms(pool, businessId)) ?? DEFAULT_TERMS
  return { terms, calendar: createCalendar(terms, await listAllHolidays(pool)) }
}

const REMEMBERED_MAX = 10_000

/** A change of terms or holidays shows in what is due after this long at the latest. */
const REMEMBER_MS = 2_000

/** Finds the calendar of a business, for look-ups; it is remembered for two seconds. */
export type CalendarOf = (businessId: string) => Promise<Calendar>

export function createCalendarOf(pool: Pool, clock: Clock): CalendarOf {
  const remembered = new LRUCache<string, Promise<Calendar>>({
    max: REMEMBERED_MAX,
    ttl: REMEMBER_MS,
    ttlResolution: 0,
    perf: clock,
  })
  return (businessId) => {
    const known = remembered.get(businessId)
    if (known !== undefined) return known
    const calendar = readCalendar(pool, businessId).then((found) => found.calendar)
    remembered.set(businessId, calendar)
    // What could not be read is not remembered.
    calendar.catch(() => remembered.delete(businessId))
    return calendar
  }
}
