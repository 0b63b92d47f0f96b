import type { BusinessScope } from '../auth/caller.ts'

/** The businesses and modes that a caller sees in a view. */
export interface Scope extends BusinessScope {
  /** Whether the caller may see what only operators see, because its token is not restricted to businesses. */
  readonly isOperator: boolean
}

/**
 * @param businessId the requested business, which the caller may see; empty: all businesses that the caller may see
 * @param restriction the businesses that the caller's token is restricted to; undefined: none
 */
export function scopeOf(
  businessId: string,
  live: boolean | undefined,
  restriction: ReadonlySet<string> | undefined,
): Scope {
  const businessIds = businessId === '' ? restriction && [...restriction] : [businessId]
  return { businessIds, live, isOperator: restriction === undefined }
}

/** Whether a scope includes the business and mode of a result. */
export function includes(
  { businessIds, live }: Scope,
  found: { readonly businessId: string; readonly live: boolean },
): boolean {
  const isOwn = businessIds === undefined || businessIds.includes(found.businessId)
  return isOwn && (live === undefined || live === found.live)
}
