import {
  type ContextKey,
  type ContextValues,
  createContextKey,
  type HandlerContext,
} from '@connectrpc/connect'
import { assert, Fault } from '../core/errors.ts'
import type { RateLimit } from './rate-limits/token-bucket.ts'

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
  /** How often each key of the business may call; undefined: as often as any. */
  readonly rateLimit: RateLimit | undefined
}

/** An internal service or operator, known by a token. */
export interface InternalCaller {
  readonly kind: 'internal'
  /** `bootstrap` for the token of the settings, which is of no row. */
  readonly tokenId: string
  readonly name: string
  readonly scopes: ReadonlySet<Scope>
  /** The only businesses there are for this caller; undefined: all. */
  readonly businessIds?: ReadonlySet<string> | undefined
}

/** The id of the token of the settings. */
export const BOOTSTRAP = 'bootstrap'

/** Who calls. */
export type Caller = BusinessCaller | InternalCaller

/** The caller of the call under way; undefined where none is needed. */
export const callerKey = createContextKey<Caller | undefined>(undefined)

/** For how long a stream may go on. */
export interface CredentialStatus {
  /** Whether the credential of the call still stands; to be asked now and then. */
  readonly stands: () => Promise<boolean>
  /** Ends the call from outside, whatever it or its caller waits for. */
  readonly end: (fault: Fault) => void
}

/** The standing of the call under way. */
export const credentialStatusKey = createContextKey<CredentialStatus>({
  stands: async () => true,
  end: () => undefined,
})

/** Where a call comes from. */
export interface CallSource {
  /** The network address at the other end of the connection. */
  readonly address: string
  readonly requestId: string
}

/** The source of the call under way. The doors put it there: it is their `CallContext`. */
export const callSourceKey: ContextKey<CallSource | undefined> = createContextKey<
  CallSource | undefined
>(undefined)

/**
 * Refuses a part of a method that is for administrators alone.
 *
 * @param what the part, as the text names it
 * @throws Fault permission_denied
 */
export function requireAdmin(context: HandlerContext, what: string): void {
  const caller = context.values.get(callerKey)
  if (caller?.kind === 'internal' && caller.scopes.has('admin')) return
  throw new Fault('permission_denied', `The token lacks the scope admin, which ${what} needs`)
}

/** The business that calls. Only for methods that the access table opens to businesses alone. */
export function callingBusiness(context: HandlerContext): BusinessCaller {
  const caller = context.values.get(callerKey)
  assert(caller?.kind === 'business', 'the access table lets only businesses call this method')
  return caller
}

/** The businesses that the caller is restricted to; undefined: it is not. */
export function restrictionOf(values: ContextValues): ReadonlySet<string> | undefined {
  const caller = values.get(callerKey)
  return caller?.kind === 'internal' ? caller.businessIds : undefined
}

/** Who makes a change, and from where: what the audit log keeps of it. */
export interface Actor extends CallSource {
  readonly kind: 'token' | 'secret_key' | 'bootstrap' | 'system'
  /** Of the token or key; empty for the other kinds. */
  readonly id: string
  readonly name: string
}

/** The service itself, where nobody calls. */
export const SYSTEM: Actor = { kind: 'system', id: '', name: '', address: '', requestId: '' }

/** Who makes the call under way. */
export function actorOf({ values }: HandlerContext): Actor {
  const caller = values.get(callerKey)
  const source = values.get(callSourceKey)
  assert(caller && source, 'a call that changes something has a caller and a source')
  const { address, requestId } = source
  if (caller.kind === 'business') {
    return { kind: 'secret_key', id: caller.keyId, name: '', address, requestId }
  }
  if (caller.tokenId === BOOTSTRAP) {
    return { kind: 'bootstrap', id: '', name: caller.name, address, requestId }
  }
  return { kind: 'token', id: caller.tokenId, name: caller.name, address, requestId }
}
