import { LockMode, wrap } from '@mikro-orm/core'
import type { Database } from '../store/orm.ts'
import { type Business, BusinessEntity } from './business.entity.ts'
import { noSuchBusiness } from './get-business.ts'

/** What to change; what is absent stays. */
interface BusinessChange {
  readonly businessId: string
  readonly name?: string | undefined
  /** For the accounts that are opened from now on: those that are open keep their names. */
  readonly alias?: string | undefined
}

/** @throws Fault not_found when there is no such business */
export async function updateBusiness(
  database: Database,
  { businessId, name, alias }: BusinessChange,
): Promise<Business> {
  return database.orm.em.fork().transactional(async (em) => {
    const lockMode = LockMode.PESSIMISTIC_WRITE
    const business = await em.findOne(BusinessEntity, businessId, { lockMode })
    if (!business) throw noSuchBusiness()
    wrap(business).assign({
      ...(name !== undefined && { name }),
      ...(alias !== undefined && { alias }),
    })
    return business
  })
}
