import { createContextKey, type HandlerContext } from '@connectrpc/connect'
import { assert } from './errors.ts'

/** What an internal token allows. `admin` allows everything internal. */
export const SCOPES = ['admin', 'payments:write', 'read', 'events:subscribe'] as const

export type Scope = (typeof SCOPES)[number]

/** A business, known by one of its secret keys. */
export interface BusinessCaller {
  readonly kind: 'business'
  readonly businessId: string
  /** Whether the key opens live mode; false: test mode. Neither shows anything of the other. */
  readonly live: boolean
  readonly keyId: string
}

/** An internal service or operator, known by a token. */
export interface InternalCaller {
  readonly kind: 'internal'
  readonly tokenId: string
  readonly scopes: ReadonlySet<Scope>
}

/** Who calls. */
export type Caller = BusinessCaller | InternalCaller

/** The caller of the call under way; undefined where none is needed. */
export const callerKey = createContextKey<Caller | undefined>(undefined)

/** The business that calls. Only for methods that the access table opens to businesses alone. */
export function callingBusiness(context: HandlerContext): BusinessCaller {
  const caller = context.values.get(callerKey)
  assert(caller?.kind === 'business', 'the access table lets only businesses call this method')
  return caller
}
