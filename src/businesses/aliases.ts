import type { MikroORM } from '@mikro-orm/postgresql'
import { LRUCache } from 'lru-cache'
import { BusinessEntity } from './business.entity.ts'
import { businessNotFound } from './get-business.ts'

const ALIASES_MAX = 10_000

/** How long an alias stays cached. A change takes effect within this time. */
const CACHED_MS = 800

/** Returns the prefix of a business's account names. Throws Fault not_found if it is unknown. */
export type AliasOf = (businessId: string) => Promise<string>

/** Caches aliases for less than a second, as UpdateBusiness may change them at any instance. */
export function createAliasOf(orm: MikroORM): AliasOf {
  // The cache uses a monotonic clock: setting the system clock back does not extend an entry.
  const cache = new LRUCache<string, string>({ max: ALIASES_MAX, ttl: CACHED_MS })
  return async (businessId) => {
    const cached = cache.get(businessId)
    if (cached !== undefined) return cached
    const start = performance.now()
    const id = businessId
    const business = await orm.em.fork().findOne(BusinessEntity, { id }, { fields: ['alias'] })
    if (!business) throw businessNotFound()
    cache.set(businessId, business.alias, { start })
    return business.alias
  }
}
