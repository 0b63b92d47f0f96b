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

/** The scopes of a secret key. A key without scopes may call what it could before there were any. */
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

/** The scope that moves money: a stolen key must not be enough, so only keys that are bound to addresses have it. */
export const ADDRESS_BOUND_SCOPE = 'payouts' satisfies KeyScope

/** A business, authenticated by one of its secret keys. */
export interface BusinessCaller {
  readonly kind: 'business'
  readonly businessId: string
  /** The mode of the key: true for live, false for test. A mode sees nothing of the other. */
  readonly live: boolean
  readonly keyId: string
  /** Empty: the methods that are open to keys without scopes. */
  readonly scopes: ReadonlySet<KeyScope>
  /** Whether the key may be used from some addresses only. */
  readonly isAddressBound: boolean
  /** The rate limit of each key of the business; undefined: the default. */
  readonly rateLimit: RateLimit | undefined
}

/** A request with a secret key, once it has its response. */
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
    /** Called if the request is kept. Without secrets and identity numbers. */
    readonly body: () => string
  }
}

/** An internal service or operator, authenticated by a token. */
export interface InternalCaller {
  readonly kind: 'internal'
  /**
   * `bootstrap` for ADMIN_TOKEN, which has no row; the URI of a certificate; of a session `plk_…` for a
   * portal link, and `oidc:` and the subject for a user of the OpenID Connect provider.
   */
  readonly tokenId: string
  readonly name: string
  readonly scopes: ReadonlySet<Scope>
  /** The businesses that the token is restricted to; undefined: all. */
  readonly businessIds?: ReadonlySet<string> | undefined
  /** When the credential expires, in milliseconds since the Unix epoch; undefined: never. */
  readonly expiresAtMs?: number | undefined
  /** The session that the call belongs to; undefined: it came with the token itself, or a certificate. */
  readonly session?: CallerSession | undefined
}

/** What a session was begun with. */
export type SessionKind = 'token' | 'oidc' | 'portal'

/** A session of the console, whose cookie a call came with. */
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

/** Whether a stream may continue. */
export interface CredentialStatus {
  /** Checks whether the credential of the call is still valid. Streams call it periodically. */
  readonly isValid: () => Promise<boolean>
  /** Ends the call from outside, whatever it or its caller is waiting for. */
  readonly end: (fault: Fault) => void
}

/** The credential status of the current call. */
export const credentialStatusKey = createContextKey<CredentialStatus>({
  isValid: async () => true,
  end: () => undefined,
})

/** Where a call came from. */
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
 * @param what the part, as the error text names it
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

/** Who made a change, and from where, as the audit log records it. */
export interface Actor extends CallSource {
  readonly kind: 'token' | 'secret_key' | 'bootstrap' | 'system' | 'command_line'
  /** The id of the token or key; empty for the other kinds. */
  readonly id: string
  readonly name: string
  /** Authenticate the audit entries of the change. */
  readonly auditKeys: AuditKeys
}

/** The id of the actor's credential; ADMIN_TOKEN has one too. */
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
