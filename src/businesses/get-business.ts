import type { EntityManager } from '@mikro-orm/postgresql'
import { Fault } from '../core/errors.ts'
import type { Database } from '../postgres/orm.ts'
import type { Page } from '../postgres/page-token.ts'
import { type Business, BusinessEntity } from './business.entity.ts'

/** @throws Fault not_found when there is no such business */
export async function getBusiness(database: Database, businessId: string): Promise<Business> {
  return findBusiness(database.orm.em.fork(), businessId)
}

/** The same, inside a transaction. */
export async function findBusiness(em: EntityManager, businessId: string): Promise<Business> {
  const business = await em.findOne(BusinessEntity, businessId)
  if (!business) throw noSuchBusiness()
  return business
}

export function noSuchBusiness(): Fault {
  return new Fault('not_found', 'There is no such business')
}

/**
 * Businesses, newest first; one more than the page holds, when there is one.
 *
 * @param only the ids of those that there are for the caller; undefined: all
 */
export async function listBusinesses(
  database: Database,
  page: Page,
  only?: Iterable<string>,
): Promise<Business[]> {
  const after = page.after?.[0]
  const id = {
    ...(after !== undefined && { $lt: after }),
    ...(only !== undefined && { $in: [...only] }),
  }
  return database.orm.em.fork().find(BusinessEntity, Object.keys(id).length === 0 ? {} : { id }, {
    orderBy: { id: 'desc' },
    limit: page.limit + 1,
  })
}
