import { type DescMethod, isFieldSet, type Message } from '@bufbuild/protobuf'
import type { Interceptor, StreamRequest, UnaryRequest } from '@connectrpc/connect'
import type { AuditKeys } from '../../auth/audit/audit-hash.ts'
import {
  ADDRESS_BOUND_SCOPE,
  auditKeysKey,
  type BusinessCaller,
  type Caller,
  callerKey,
  credentialStatusKey,
  type InternalCaller,
  restrictionOf,
} from '../../auth/caller.ts'
import type { MethodPolicy, Owner, PolicyOf, Resource } from '../../auth/method-policy.ts'
import type { SessionPurpose } from '../../auth/sessions/authenticate-session.ts'
import { assert, Fault } from '../../core/errors.ts'
import { authorizationOf, type CallContext, callContextKey } from '../invokers.ts'

/** The result of a look-up. It is a promise only if the caller is not cached, which is rare. */
type Finding = Caller | undefined | Promise<Caller | undefined>

/** The look-ups of callers by credential. They return undefined if the credential is not valid. */
interface Authenticators {
  /** May throw Fault address_not_allowed. */
  readonly secretKey: (secret: string, address: string) => Finding
  readonly token: (token: string) => Finding
  /** Looks up the URI of a client certificate, which the gRPC server has verified. */
  readonly certificate?: (uri: string) => Caller | undefined
  /** Looks up the secret of a session, from the cookie of a browser. */
  readonly session?: (secret: string, purpose: SessionPurpose) => Finding
}

/**
 * Refuses calls without the credential that the method's policy requires.
 *
 * @param auditKeys the keys that authenticate the audit entries of the caller's changes
 */
export function authentication(
  authenticators: Authenticators,
  policyOf: PolicyOf,
  auditKeys: AuditKeys,
): Interceptor {
  return (next) => async (request) => {
    const policy = policyOf(request.method)
    const context = request.contextValues.get(callContextKey)
    const authorization = authorizationOf(request)
    const identify = (purpose: SessionPurpose) =>
      find(authenticators, policy, authorization, context, purpose)
    const found = identify('use')
    const caller = found instanceof Promise ? await found : found
    if (caller === undefined) throw unauthorized(policy)
    request.contextValues.set(callerKey, caller).set(auditKeysKey, auditKeys)
    if (caller.kind === 'business') requireKeyScope(caller, policy)
    else requireScope(caller, policy)
    if (request.stream) {
      request.contextValues.set(credentialStatusKey, {
        isValid: async () => (await identify('watch')) !== undefined,
        end: (fault) => context?.abort?.(fault),
      })
    }
    return next(request)
  }
}

function find(
  { secretKey, token, certificate, session }: Authenticators,
  policy: MethodPolicy,
  authorization: string | null,
  context: CallContext | undefined,
  purpose: SessionPurpose,
): Finding {
  const credential = bearer(authorization)
  if (policy.credential === 'secret key') {
    return credential === undefined ? undefined : secretKey(credential, context?.address ?? '')
  }
  if (credential !== undefined) return token(credential)
  // If the call has a token, only the token counts: a certificate does not make up for a wrong token.
  if (authorization !== null) return undefined
  const secret = context?.session
  if (secret !== undefined) return session?.(secret, purpose)
  const uri = context?.clientUri
  return uri === undefined ? undefined : certificate?.(uri)
}

function unauthorized({ credential: what }: MethodPolicy): Fault {
  return new Fault('unauthorized', `A valid ${what} is required: Authorization: Bearer <${what}>`)
}

function requireKeyScope(
  { scopes: held, isAddressBound }: BusinessCaller,
  policy: MethodPolicy,
): void {
  assert(policy.credential === 'secret key', 'a key is looked up only for a method for keys')
  const { scopes, openToUnscopedKeys } = policy
  const isOpen = held.size === 0 ? openToUnscopedKeys : scopes.some((scope) => held.has(scope))
  if (!isOpen) {
    throw new Fault('permission_denied', `The key lacks the scope ${scopes.join(' or ')}`)
  }
  // Such a key is never issued; it is refused here even if one was put into the database.
  if (scopes.includes(ADDRESS_BOUND_SCOPE) && !isAddressBound) {
    const text = `The scope ${ADDRESS_BOUND_SCOPE} needs a key that is bound to addresses`
    throw new Fault('permission_denied', text)
  }
}

function requireScope({ scopes: held }: InternalCaller, policy: MethodPolicy): void {
  assert(policy.credential === 'token', 'a token is looked up only for a method for tokens')
  const { scopes } = policy
  if (held.has('admin') || scopes.some((scope) => held.has(scope))) return
  throw new Fault('permission_denied', `The token lacks the scope ${scopes.join(' or ')}`)
}

/** Returns the id that is readable in a credential of a kind; undefined if it is malformed. */
export type CredentialIdOf = (
  kind: MethodPolicy['credential'],
  credential: string,
) => string | undefined

/** @returns the credential of an Authorization header; undefined if the scheme is not Bearer */
function bearer(header: string | null): string | undefined {
  if (header === null || header.length > 512) return undefined
  return /^Bearer +(\S+)$/i.exec(header)?.[1]
}

/**
 * The credential of a request: the bearer credential, or else the whole Authorization header. Without that header, the
 * session secret counts for methods that accept a token.
 */
export function credentialOf(
  request: UnaryRequest | StreamRequest,
  kind: MethodPolicy['credential'],
): string | undefined {
  const header = authorizationOf(request)
  if (header !== null) return bearer(header) ?? header
  return kind === 'token' ? request.contextValues.get(callContextKey)?.session : undefined
}

/** Whether a request has a credential of a kind that its method accepts, valid or not. */
export function hasCredential(
  request: UnaryRequest | StreamRequest,
  kind: MethodPolicy['credential'],
): boolean {
  if (authorizationOf(request) !== null) return true
  return kind === 'token' && request.contextValues.get(callContextKey)?.session !== undefined
}

/** The look-ups of resource owners. They return undefined if the resource does not exist. */
type Owners = Readonly<Record<Resource, (id: string) => Promise<Owner | undefined>>>

/** An id that no resource has. */
const UNKNOWN_ID = '-'

type TokenPolicy = Extract<MethodPolicy, { credential: 'token' }>

/**
 * Confines keys to their business and mode, and restricted tokens to their businesses, as the method's
 * policy states. It runs after validation, on the same message that the implementation gets.
 *
 * A call that names another business is refused, whether that business exists or not. The id of a
 * resource of another business is replaced by one that no resource has, so that the response is the
 * same as for an unknown id.
 */
export function tenantScope(owners: Owners, policyOf: PolicyOf): Interceptor {
  const tokenPolicyOf = (method: DescMethod): TokenPolicy => {
    const policy = policyOf(method)
    assert(policy.credential === 'token', 'only methods for tokens have a tenant scope')
    return policy
  }
  return (next) => (request) => {
    const caller = request.contextValues.get(callerKey)
    if (caller?.kind === 'business') {
      const policy = policyOf(request.method)
      const fields = policy.credential === 'secret key' ? Object.entries(policy.owned) : []
      if (fields.length === 0 || request.stream) return next(request)
      const isOwn = ({ businessId, live }: Owner) =>
        businessId === caller.businessId && live === caller.live
      return hideOthers(request.message, fields, owners, isOwn).then(() => next(request))
    }
    const allowed = restrictionOf(request.contextValues)
    if (allowed === undefined) return next(request)
    if (request.stream) {
      const message = confined(request.message, tokenPolicyOf(request.method), allowed, owners)
      return next({ ...request, message })
    }
    const policy = tokenPolicyOf(request.method)
    return confine(request.message, policy, allowed, owners).then(() => next(request))
  }
}

async function* confined<T extends Message>(
  messages: AsyncIterable<T>,
  policy: TokenPolicy,
  allowed: ReadonlySet<string>,
  owners: Owners,
): AsyncGenerator<T> {
  for await (const message of messages) {
    await confine(message, policy, allowed, owners)
    yield message
  }
}

/** @throws Fault permission_denied */
async function confine(
  message: Message,
  { tenantScope: scope, unrestrictedFields }: TokenPolicy,
  allowed: ReadonlySet<string>,
  owners: Owners,
): Promise<void> {
  const fields = message as unknown as Record<string, unknown>
  const refused = unrestrictedFields.find((field) => isFieldSet(message, field))
  if (refused !== undefined) {
    throw new Fault(
      'permission_denied',
      `The token is restricted to businesses; only an unrestricted token may set ${refused.name}`,
    )
  }
  switch (scope.by) {
    case 'unrestricted':
      throw new Fault(
        'permission_denied',
        'The token is restricted to businesses, and this method is not open to such tokens',
      )
    case 'business':
      return requireAllowed([fields[scope.field]], allowed)
    case 'filtered': {
      const named = scope.field === undefined ? '' : fields[scope.field]
      return named === '' ? undefined : requireAllowed([named], allowed)
    }
    case 'businesses': {
      const named = fields[scope.field] as readonly string[]
      if (named.length > 0) return requireAllowed(named, allowed)
      fields[scope.field] = [...allowed]
      return undefined
    }
    case 'owned': {
      const isOwn = ({ businessId }: Owner) => allowed.has(businessId)
      return hideOthers(message, Object.entries(scope.fields), owners, isOwn)
    }
  }
}

/** Replaces the ids of resources that are not the caller's own. */
async function hideOthers(
  message: Message,
  owned: readonly (readonly [field: string, resource: Resource])[],
  owners: Owners,
  isOwn: (owner: Owner) => boolean,
): Promise<void> {
  const fields = message as unknown as Record<string, unknown>
  for (const [field, resource] of owned) {
    const id = fields[field]
    if (typeof id !== 'string' || id === '') continue
    const owner = await owners[resource](id)
    if (owner === undefined || !isOwn(owner)) fields[field] = UNKNOWN_ID
  }
}

function requireAllowed(named: readonly unknown[], allowed: ReadonlySet<string>): void {
  if (named.every((id) => typeof id === 'string' && allowed.has(id))) return
  throw new Fault('permission_denied', 'The token is restricted to other businesses')
}
