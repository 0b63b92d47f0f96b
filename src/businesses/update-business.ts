import { wrap } from '@mikro-orm/core'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { lockRow } from '../postgres/lock-row.ts'
import type { Database } from '../postgres/orm.ts'
import { type Business, BusinessEntity } from './business.entity.ts'
import { businessNotFound } from './get-business.ts'
import { changeRateLimit } from './own-rate-limit.ts'

/** The change; absent fields stay unchanged. */
interface BusinessChange {
  readonly businessId: string
  readonly name?: string | undefined
  /** Applies to accounts that are opened from now on; open accounts keep their names. */
  readonly alias?: string | undefined
  /** 0: the default rate and burst. */
  readonly rateLimitPerSecond?: number | undefined
  /** 0: twice the sustained rate. */
  readonly rateLimitBurst?: number | undefined
}

/** @throws Fault not_found, validation_failed (a burst that is too large or has no rate) */
export async function updateBusiness(
  database: Database,
  { businessId, name, alias, rateLimitPerSecond, rateLimitBurst }: BusinessChange,
  actor: Actor,
): Promise<Business> {
  return database.orm.em.fork().transactional(async (em) => {
    await lockRow(em, BusinessEntity, businessId)
    const business = await em.findOne(BusinessEntity, businessId)
    if (!business) throw businessNotFound()
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
