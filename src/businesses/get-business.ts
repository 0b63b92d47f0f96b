import type { EntityManager } from '@mikro-orm/postgresql'
import { Fault } from '../core/errors.ts'
import type { Database } from '../postgres/orm.ts'
import type { Page } from '../postgres/page-token.ts'
import { type Business, BusinessEntity } from './business.entity.ts'

/** @throws Fault not_found when the business does not exist */
export async function getBusiness(database: Database, businessId: string): Promise<Business> {
  return findBusiness(database.orm.em.fork(), businessId)
}

/** Like getBusiness, inside a transaction. */
export async function findBusiness(em: EntityManager, businessId: string): Promise<Business> {
  const business = await em.findOne(BusinessEntity, businessId)
  if (!business) throw businessNotFound()
  return business
}

export function businessNotFound(): Fault {
  return new Fault('not_found', 'There is no such business')
}

/**
 * Returns businesses, newest first: one row more than the page size if there are more.
 *
 * @param only the ids that the caller's token is restricted to; undefined: all
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
