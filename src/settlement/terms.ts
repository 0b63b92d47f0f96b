import { LRUCache } from 'lru-cache'
import type { Clock } from '../core/clock.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { type Calendar, createCalendar, type Schedule } from './schedule.ts'

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

/** The terms of a business that has none of its own: payments are due at the start of the next working day, without a fee. */
export const DEFAULT_TERMS: Terms = {
  schedule: 'WORKING_DAYS',
  workingDays: 1,
  cutOffMinutes: 0,
  feeFlatMinor: 0n,
  feeBasisPoints: 0,
  feeCapMinor: 0n,
}

/** The terms of the businesses that have terms of their own. */
async function findTermsOf(
  client: Queryable,
  businessIds: ReadonlySet<string>,
): Promise<ReadonlyMap<string, Terms>> {
  if (businessIds.size === 0) return new Map()
  type Row = Omit<Terms, 'feeFlatMinor' | 'feeCapMinor'> &
    Readonly<Record<'businessId' | 'feeFlatMinor' | 'feeCapMinor', string>>
  const { rows } = await client.query<Row>({
    name: 'settlement-terms-of',
    text: `select business_id as "businessId", schedule, working_days as "workingDays",
        cut_off_minutes as "cutOffMinutes", fee_flat_minor as "feeFlatMinor",
        fee_basis_points as "feeBasisPoints", fee_cap_minor as "feeCapMinor"
      from settlement_terms where business_id = any ($1::text[])`,
    values: [[...businessIds]],
  })
  return new Map(
    rows.map(({ businessId, feeFlatMinor, feeCapMinor, ...row }) => [
      businessId,
      { ...row, feeFlatMinor: BigInt(feeFlatMinor), feeCapMinor: BigInt(feeCapMinor) },
    ]),
  )
}

/** Days as YYYY-MM-DD. A country has about fifteen holidays a year; the query is bounded anyway. */
export async function listHolidaysOf(
  client: Queryable,
  from: string,
  to: string,
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await client.query<{ day: string; name: string }>(
    `select to_char(day, 'YYYY-MM-DD') as day, name from holiday where day >= $1 and day < $2`,
    [from, to],
  )
  return new Map(rows.map(({ day, name }) => [day, name]))
}

async function listAllHolidays(client: Queryable): Promise<string[]> {
  const { rows } = await client.query<{ day: string }>({
    name: 'holidays',
    text: `select to_char(day, 'YYYY-MM-DD') as day from holiday order by day desc limit 10000`,
  })
  return rows.map(({ day }) => day)
}

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

/** How long due times may be computed from old terms or holidays. */
const CACHE_TTL_MS = 2_000

/** Finds the calendar of a business, for queries. Calendars are cached for two seconds. */
type FindCalendar = (businessId: string) => Promise<Calendar>

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
