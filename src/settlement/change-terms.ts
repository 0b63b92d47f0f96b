import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { findBusiness } from '../businesses/get-business.ts'
import type { Clock } from '../core/clock.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import type { Database } from '../postgres/orm.ts'
import { cutPage, invalidPageToken, readPage } from '../postgres/page-token.ts'
import { queryableOf } from '../postgres/queries-of.ts'
import { lockDue, refreshDue, requestSweep } from './due-index.ts'
import { HolidayEntity, TermsEntity } from './settlement.entity.ts'
import { DEFAULT_TERMS, type Terms } from './terms.ts'

/** @throws Fault not_found if the business does not exist */
export async function getTerms({ orm }: Database, businessId: string): Promise<Terms> {
  const em = orm.em.fork()
  const business = await findBusiness(em, businessId)
  return (await em.findOne(TermsEntity, { business })) ?? DEFAULT_TERMS
}

/** @throws Fault not_found if the business does not exist */
export async function updateTerms(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  businessId: string,
  terms: Terms,
  actor: Actor,
): Promise<Terms> {
  await database.orm.em.fork().transactional(async (em) => {
    const business = await findBusiness(em, businessId)
    await em.upsert(TermsEntity, { business, ...terms, updatedAt: new Date(clock.now()) })
    const client = queryableOf(em)
    await lockDue(client, 'exclusive')
    await refreshDue(client, [
      { businessId, live: false },
      { businessId, live: true },
    ])
    const { feeFlatMinor, feeCapMinor, ...rest } = terms
    await appendAudit(em, actor, {
      action: 'terms.update',
      targetId: businessId,
      businessId,
      details: { ...rest, feeFlatMinor: `${feeFlatMinor}`, feeCapMinor: `${feeCapMinor}` },
    })
  })
  return terms
}

/** A day that is not a working day. */
interface Holiday {
  /** YYYY-MM-DD */
  readonly day: string
  readonly name: string
}

const DAY = /^20\d\d-\d\d-\d\d$/

/** Adds a holiday, or renames it. @throws Fault validation_failed if the date does not exist */
export async function addHoliday(orm: MikroORM, holiday: Holiday, actor: Actor): Promise<Holiday> {
  const { day, name } = holiday
  checkDay(day)
  await orm.em.fork().transactional(async (em) => {
    await em.upsert(HolidayEntity, { day, name })
    await updateDueTimes(em)
    await appendAudit(em, actor, { action: 'holiday.add', targetId: day, details: { name } })
  })
  return holiday
}

/** @throws Fault validation_failed if the date does not exist, not_found if it is not a holiday */
export async function removeHoliday(orm: MikroORM, day: string, actor: Actor): Promise<void> {
  checkDay(day)
  await orm.em.fork().transactional(async (em) => {
    const deleted = await em.nativeDelete(HolidayEntity, { day })
    if (deleted === 0) throw new Fault('not_found', 'That day is not a holiday')
    await updateDueTimes(em)
    await appendAudit(em, actor, { action: 'holiday.remove', targetId: day })
  })
}

/** A holiday moves the due times of many businesses: the job computes them again, in pages. */
async function updateDueTimes(em: EntityManager): Promise<void> {
  const client = queryableOf(em)
  await lockDue(client, 'exclusive')
  await requestSweep(client)
}

/** One page of holidays, in date order. */
export async function listHolidays(orm: MikroORM, pageSize: number, pageToken: string) {
  const page = readPage(pageSize, pageToken, 1)
  const after = page.after?.[0] ?? '1999-12-31'
  if (page.after !== undefined && !isDay(after)) throw invalidPageToken()
  const later = { day: { $gt: after } }
  const holidays = await orm.em
    .fork()
    .find(HolidayEntity, later, { orderBy: { day: 'asc' }, limit: page.limit + 1 })
  return cutPage(holidays, page, (holiday) => [holiday.day])
}

function checkDay(day: string): void {
  if (!isDay(day)) throw invalidFields([{ field: 'day', message: 'must be a calendar date' }])
}

/** Rejects dates that do not exist, such as 30 February. */
function isDay(day: string): boolean {
  const at = Date.parse(`${day}T00:00:00Z`)
  return DAY.test(day) && !Number.isNaN(at) && new Date(at).toISOString().startsWith(day)
}
