import type { Clock } from '../clock.ts'
import { noSuchBusiness } from './get-business.ts'
import type { BusinessStore } from './store.ts'

const ALIASES_MAX = 10_000

/** How long an alias is used without asking the database: a change is seen within this. */
const TRUST_MS = 800

/** What a business's account names begin with. Throws Fault not_found for an unknown business. */
export type AliasOf = (businessId: string) => Promise<string>

/** Remembers what it found for less than a second, as UpdateBusiness may change it anywhere. */
export function createAliasOf(store: BusinessStore, clock: Clock): AliasOf {
  const remembered = new Map<string, { readonly alias: string; readonly askedMs: number }>()
  return async (businessId) => {
    const nowMs = clock.now()
    const known = remembered.get(businessId)
    if (known !== undefined && known.askedMs <= nowMs && nowMs < known.askedMs + TRUST_MS) {
      return known.alias
    }
    const alias = await store.findAlias(businessId)
    if (alias === undefined) throw noSuchBusiness()
    if (remembered.size >= ALIASES_MAX) remembered.clear()
    remembered.set(businessId, { alias, askedMs: nowMs })
    return alias
  }
}
