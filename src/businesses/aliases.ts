import type { Database } from '../store/orm.ts'
import { getBusiness } from './get-business.ts'

const ALIASES_MAX = 10_000

/** What a business's account names begin with. Throws Fault not_found for an unknown business. */
export type AliasOf = (businessId: string) => Promise<string>

/** Remembers what it found: an alias never changes, as accounts carry it. */
export function createAliasOf(database: Database): AliasOf {
  const remembered = new Map<string, string>()
  return async (businessId) => {
    const known = remembered.get(businessId)
    if (known !== undefined) return known
    const { alias } = await getBusiness(database, businessId)
    if (remembered.size >= ALIASES_MAX) remembered.clear()
    remembered.set(businessId, alias)
    return alias
  }
}
