import { LRUCache } from 'lru-cache'
import { noSuchBusiness } from './get-business.ts'
import type { BusinessStore } from './store.ts'

const ALIASES_MAX = 10_000

/** How long an alias is used without asking the database: a change is seen within this. */
const TRUST_MS = 800

/** What a business's account names begin with. Throws Fault not_found for an unknown business. */
export type AliasOf = (businessId: string) => Promise<string>

/** Remembers what it found for less than a second, as UpdateBusiness may change it anywhere. */
export function createAliasOf(store: BusinessStore): AliasOf {
  // The cache goes by a monotonic time: a clock that is set back prolongs nothing.
  const remembered = new LRUCache<string, string>({ max: ALIASES_MAX, ttl: TRUST_MS })
  return async (businessId) => {
    const known = remembered.get(businessId)
    if (known !== undefined) return known
    const start = performance.now()
    const alias = await store.findAlias(businessId)
    if (alias === undefined) throw noSuchBusiness()
    remembered.set(businessId, alias, { start })
    return alias
  }
}
