import { LockMode, wrap } from '@mikro-orm/core'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { Database } from '../postgres/orm.ts'
import { type Business, BusinessEntity } from './business.entity.ts'
import { noSuchBusiness } from './get-business.ts'
import { changeRateLimit } from './own-rate-limit.ts'

/** What to change; what is absent stays. */
interface BusinessChange {
  readonly businessId: string
  readonly name?: string | undefined
  /** For the accounts that are opened from now on: those that are open keep their names. */
  readonly alias?: string | undefined
  /** 0: the default, and no burst of its own either. */
  readonly rateLimitPerSecond?: number | undefined
  /** 0: twice of what is sustained. */
  readonly rateLimitBurst?: number | undefined
}

/** @throws Fault not_found (no such business), validation_failed (a burst that fits no rate) */
export async function updateBusiness(
  database: Database,
  { businessId, name, alias, rateLimitPerSecond, rateLimitBurst }: BusinessChange,
  actor: Actor,
): Promise<Business> {
  return database.orm.em.fork().transactional(async (em) => {
    const lockMode = LockMode.PESSIMISTIC_WRITE
    const business = await em.findOne(BusinessEntity, businessId, { lockMode })
    if (!business) throw noSuchBusiness()
    const details = {
      ...(name !== undefined && { name }),
      ...(alias !== undefined && { alias }),
      ...changeRateLimit(business, { rateLimitPerSecond, rateLimitBurst }),
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
