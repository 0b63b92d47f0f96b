/** What a caller sees of a view. */
export interface Scope {
  /** The businesses; undefined: all. */
  readonly businessIds: readonly string[] | undefined
  /** Undefined: both modes. */
  readonly live: boolean | undefined
  /** Whether the caller may see what concerns operators only: its token is not restricted to businesses. */
  readonly isOperator: boolean
}

/**
 * @param businessId the requested one, which the caller may see; empty: all that the caller may see
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

/** Whether a scope includes something of a business and a mode. */
export function includes(
  { businessIds, live }: Scope,
  found: { readonly businessId: string; readonly live: boolean },
): boolean {
  const isOwn = businessIds === undefined || businessIds.includes(found.businessId)
  return isOwn && (live === undefined || live === found.live)
}
