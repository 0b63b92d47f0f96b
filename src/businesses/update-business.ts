import { LockMode, wrap } from '@mikro-orm/core'
import { appendAudit } from '../audit.ts'
import type { Actor } from '../caller.ts'
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
  actor: Actor,
): Promise<Business> {
  return database.orm.em.fork().transactional(async (em) => {
    const lockMode = LockMode.PESSIMISTIC_WRITE
    const business = await em.findOne(BusinessEntity, businessId, { lockMode })
    if (!business) throw noSuchBusiness()
    const details = {
      ...(name !== undefined && { name }),
      ...(alias !== undefined && { alias }),
    }
    wrap(business).assign(details)
    await appendAudit(em, actor, {
      action: 'business.update',
      targetId: businessId,
      businessId,
      details,
    })
    return business
  })
}
