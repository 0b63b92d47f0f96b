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
  const cache = new LRUCache<string, Promise<string>>({ max: ALIASES_MAX, ttl: CACHED_MS })
  const read = async (id: string): Promise<string> => {
    const business = await orm.em.fork().findOne(BusinessEntity, { id }, { fields: ['alias'] })
    if (!business) throw businessNotFound()
    return business.alias
  }
  return (businessId) => {
    const known = cache.get(businessId)
    if (known !== undefined) return known
    const alias = read(businessId)
    cache.set(businessId, alias)
    alias.catch(() => cache.delete(businessId))
    return alias
  }
}
