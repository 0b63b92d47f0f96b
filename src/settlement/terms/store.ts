import type { EntityManager } from '@mikro-orm/postgresql'
import { queriesOf } from '../../postgres/queries-of.ts'
import type { HolidayEntity, TermsEntity } from '../settlement.entity.ts'
import type { Terms } from './terms.ts'

/** The columns of a business's terms. */
const TERMS = [
  ...(['schedule', 'workingDays', 'cutOffMinutes'] as const),
  ...(['feeFlatMinor', 'feeBasisPoints', 'feeCapMinor'] as const),
] as const

/** The terms of a business; undefined if it uses the default terms. */
export async function findTerms(em: EntityManager, businessId: string): Promise<Terms | undefined> {
  return queriesOf<typeof TermsEntity>(em)
    .selectFrom('settlement_terms')
    .select(TERMS)
    .where('business', '=', businessId)
    .executeTakeFirst()
}

/** The terms of those of the businesses that do not use the default terms. */
export async function findTermsOf(
  em: EntityManager,
  businessIds: ReadonlySet<string>,
): Promise<ReadonlyMap<string, Terms>> {
  if (businessIds.size === 0) return new Map()
  const rows = await queriesOf<typeof TermsEntity>(em)
    .selectFrom('settlement_terms')
    .select(['business', ...TERMS])
    .where('business', 'in', [...businessIds])
    .execute()
  return new Map(rows.map(({ business, ...terms }) => [business, terms]))
}

export async function upsertTerms(
  em: EntityManager,
  businessId: string,
  terms: Terms,
  nowMs: number,
): Promise<void> {
  const row = { ...terms, updatedAt: new Date(nowMs) }
  await queriesOf<typeof TermsEntity>(em)
    .insertInto('settlement_terms')
    .values({ business: businessId, ...row })
    .onConflict((conflict) => conflict.column('business').doUpdateSet(row))
    .execute()
}

/** Days as YYYY-MM-DD. A country has about fifteen holidays a year; the query is bounded anyway. */
export async function listAllHolidays(em: EntityManager): Promise<string[]> {
  const holidays = await queriesOf<typeof HolidayEntity>(em)
    .selectFrom('holiday')
    .select('day')
    .orderBy('day', 'desc')
    .limit(10_000)
    .execute()
  return holidays.map(({ day }) => day)
}
