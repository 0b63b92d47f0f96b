import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { newId } from '../core/ids.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type Business, BusinessEntity } from './business.entity.ts'
import { addKey } from './keys.ts'

interface CreateBusiness {
  readonly name: string
  /** The prefix of account names; empty: the name, shortened. */
  readonly alias: string
  /** The mode of the first key; absent: live. */
  readonly live?: boolean
}

/** Creates a business and its first key in one transaction. */
export async function createBusiness(
  { database, clock }: Pick<Runtime, 'database' | 'clock'>,
  request: CreateBusiness,
  actor: Actor,
): Promise<{ readonly business: Business; readonly secretKey: string }> {
  const now = clock.now()
  const createdAt = new Date(now)
  return database.orm.em.fork().transactional(async (em) => {
    const business = em.create(BusinessEntity, {
      id: newId('biz', now),
      name: request.name,
      alias: request.alias || shorten(request.name),
      createdAt,
      rateLimitPerSecond: null,
      rateLimitBurst: null,
    })
    const live = request.live ?? true
    const rights = { live, allowedCidrs: [], scopes: [], expiresAt: undefined }
    const { key, secretKey } = addKey(em, business, rights, now)
    await appendAudit(em, actor, {
      action: 'business.create',
      targetId: business.id,
      businessId: business.id,
      details: { name: business.name, alias: business.alias, keyId: key.id },
    })
    return { business, secretKey }
  })
}

/** The first 40 code points of a name, without the separator of account names. */
function shorten(name: string): string {
  const plain = name.replaceAll('/', ' ').replaceAll(/\s+/gu, ' ').trim()
  return [...plain].slice(0, 40).join('').trim() || 'Inflow'
}
