import {
  type ContextKey,
  type ContextValues,
  createContextKey,
  type HandlerContext,
} from '@connectrpc/connect'
import { assert, Fault, type FieldFault } from '../core/errors.ts'
import type { TracedCall } from '../core/tracing.ts'
import type { AuditKeys } from './audit/audit-hash.ts'
import type { RateLimit } from './rate-limits/token-bucket.ts'

/** The scopes of an internal token. `admin` allows every internal method. */
export const SCOPES = [
  'admin',
  'payments:write',
  'payments:reverse',
  'splits:write',
  'payouts:write',
  'payouts:approve',
  'webhooks:write',
  'read',
  'events:subscribe',
] as const

export type Scope = (typeof SCOPES)[number]

/** The scopes of a secret key. A key without scopes may call the methods that require no scope of a key. */
export const KEY_SCOPES = [
  'accounts:read',
  'accounts:create',
  'accounts:write',
  'payments:read',
  'payments:decide',
  'payments:requery',
  'payments:simulate',
  'events:read',
  'balances:read',
  'webhooks:read',
  'webhooks:write',
  'payouts',
] as const

export type KeyScope = (typeof KEY_SCOPES)[number]

/** The scope that moves money. Only keys that are bound to addresses have it, so that a stolen key is not enough. */
export const ADDRESS_BOUND_SCOPE = 'payouts' satisfies KeyScope

/** A business, authenticated by one of its secret keys. */
export interface BusinessCaller {
  readonly kind: 'business'
  readonly businessId: string
  /** The mode of the key: true for live, false for test. A key sees only the records of its mode. */
  readonly live: boolean
  readonly keyId: string
  /** Empty: only the methods that are open to keys without scopes. */
  readonly scopes: ReadonlySet<KeyScope>
  /** Whether the key may be used from some addresses only. */
  readonly isAddressBound: boolean
  /** The rate limit of each key of the business; undefined: the default. */
  readonly rateLimit: RateLimit | undefined
}

/** A completed request with a secret key. */
export interface AnsweredRequest {
  readonly caller: Pick<BusinessCaller, 'businessId' | 'live' | 'keyId'>
  readonly path: string
  readonly protocol: string
  readonly status: number
  readonly durationMs: number
  readonly requestId: string
  readonly address: string
  /** Absent: the request succeeded. */
  readonly failure?: {
    readonly code: string
    readonly error: string
    readonly faults: readonly FieldFault[]
    /** Returns the body without secrets and identity numbers; called only if the request is kept. */
    readonly body: () => string
  }
}

/** An internal service or operator, authenticated by a token. */
export interface InternalCaller {
  readonly kind: 'internal'
  /**
   * The id of the token, or `bootstrap` for ADMIN_TOKEN, which has no row; the URI of a certificate; `plk_…` for a session
   * of a portal link; `oidc:` and the subject for a session of a user of the OpenID Connect provider.
   */
  readonly tokenId: string
  readonly name: string
  readonly scopes: ReadonlySet<Scope>
  /** The businesses that the token is restricted to; undefined: all. */
  readonly businessIds?: ReadonlySet<string> | undefined
  /** When the credential expires, in milliseconds since the Unix epoch; undefined: never. */
  readonly expiresAtMs?: number | undefined
  /** The session of the call; undefined: the caller sent the token itself, or a certificate. */
  readonly session?: CallerSession | undefined
}

/** The kind of credential that began a session. */
export type SessionKind = 'token' | 'oidc' | 'portal'

/** The session of the console whose cookie the caller sent. */
interface CallerSession {
  readonly id: string
  readonly kind: SessionKind
}

/** The id of ADMIN_TOKEN, the token of the settings. */
export const BOOTSTRAP = 'bootstrap'

/** The authenticated caller of a method. */
export type Caller = BusinessCaller | InternalCaller

/** The caller of the current call; undefined if the method needs no credential. */
export const callerKey = createContextKey<Caller | undefined>(undefined)

/** Access to the credential of a stream, to end the stream when the credential becomes invalid. */
export interface CredentialStatus {
  /** Checks whether the credential of the call is still valid. Streams call it periodically. */
  readonly isValid: () => Promise<boolean>
  /** Aborts the call, even while it waits for something or its caller does not read. */
  readonly end: (fault: Fault) => void
}

/** The credential status of the current call. */
export const credentialStatusKey = createContextKey<CredentialStatus>({
  isValid: async () => true,
  end: () => undefined,
})

/** The source of a call. */
export interface CallSource extends TracedCall {
  /** The network address of the peer. */
  readonly address: string
  readonly requestId: string
}

/** The source of the current call. The servers set it: it is their `CallContext`. */
export const callSourceKey: ContextKey<CallSource | undefined> = createContextKey<
  CallSource | undefined
>(undefined)

/**
 * Refuses callers without a scope, for parts of a method that need it.
 *
 * @param what the name of the part in the error text
 * @throws Fault permission_denied
 */
export function requireScope(context: HandlerContext, scope: Scope, what: string): void {
  const caller = context.values.get(callerKey)
  if (caller?.kind === 'internal' && (isOperator(context) || caller.scopes.has(scope))) return
  throw new Fault('permission_denied', `The token lacks the scope ${scope}, which ${what} needs`)
}

/** Whether the caller has the scope `admin`, which allows every method for tokens. */
export function isOperator({ values }: HandlerContext): boolean {
  const caller = values.get(callerKey)
  return caller?.kind === 'internal' && caller.scopes.has('admin')
}

/** Returns the calling business. Only for methods whose policy requires a secret key. */
export function callingBusiness(context: HandlerContext): BusinessCaller {
  const caller = context.values.get(callerKey)
  assert(caller?.kind === 'business', 'the policy lets only businesses call this method')
  return caller
}

/** Returns the calling token. Only for methods whose policy requires a token. */
export function callingToken(context: HandlerContext): InternalCaller {
  const caller = context.values.get(callerKey)
  assert(caller?.kind === 'internal', 'the policy lets only tokens call this method')
  return caller
}

/** Returns the businesses that the caller's token is restricted to; undefined: all. */
export function restrictionOf(values: ContextValues): ReadonlySet<string> | undefined {
  const caller = values.get(callerKey)
  return caller?.kind === 'internal' ? caller.businessIds : undefined
}

/** The businesses and modes to select. */
export interface BusinessScope {
  /** Undefined: all. */
  readonly businessIds: readonly string[] | undefined
  /** Undefined: both modes. */
  readonly live: boolean | undefined
}

/** Who made a change, and from where, as the audit log records it. */
export interface Actor extends CallSource {
  readonly kind: 'token' | 'secret_key' | 'bootstrap' | 'system' | 'command_line'
  /** The id of the token or key; empty for the other kinds of actors. */
  readonly id: string
  readonly name: string
  /** The keys that authenticate the audit entries of the change. */
  readonly auditKeys: AuditKeys
}

/** The id of the actor's credential, also for ADMIN_TOKEN. */
export function credentialIdOf({ kind, id }: Actor): string {
  return kind === 'bootstrap' ? BOOTSTRAP : id
}

/** The service itself, for changes without a caller. */
export function systemActor(auditKeys: AuditKeys): Actor {
  return { kind: 'system', id: '', name: '', address: '', requestId: '', auditKeys }
}

/** The keys that authenticate the audit entries of the current call. */
export const auditKeysKey = createContextKey<AuditKeys | undefined>(undefined)

/** Returns the actor of the current call. */
export function actorOf({ values }: HandlerContext): Actor {
  const caller = values.get(callerKey)
  const source = values.get(callSourceKey)
  const auditKeys = values.get(auditKeysKey)
  assert(caller && source && auditKeys, 'a call that changes something has a caller and a source')
  return actorFor(caller, source, auditKeys)
}

/** Returns a caller as the audit log names it. */
export function actorFor(caller: Caller, source: CallSource, auditKeys: AuditKeys): Actor {
  const { address, requestId } = source
  const call = { address, requestId, auditKeys }
  if (caller.kind === 'business') return { kind: 'secret_key', id: caller.keyId, name: '', ...call }
  if (caller.tokenId === BOOTSTRAP) return { kind: 'bootstrap', id: '', name: caller.name, ...call }
  return { kind: 'token', id: caller.tokenId, name: caller.name, ...call }
}
