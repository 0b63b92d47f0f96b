import type { Interceptor } from '@connectrpc/connect'
import type { AuditKeys } from '../../auth/audit/audit-mac.ts'
import {
  auditKeysKey,
  type BusinessCaller,
  type Caller,
  callerKey,
  credentialStatusKey,
  type InternalCaller,
} from '../../auth/caller.ts'
import type { MethodPolicy, PolicyOf } from '../../auth/method-policy.ts'
import type { SessionPurpose } from '../../auth/sessions/authenticate-session.ts'
import { assert, Fault } from '../../core/errors.ts'
import { authorizationOf, type CallContext, callContextKey } from '../rpc/call-context.ts'
import { bearer } from './credential.ts'

/** Not a promise if the caller is cached, as most callers are. */
type Finding = Caller | undefined | Promise<Caller | undefined>

/** Look up the caller of a credential; undefined: the credential is not valid. */
export interface Authenticators {
  /** May throw Fault address_not_allowed. */
  readonly secretKey: (secret: string, address: string) => Finding
  readonly token: (token: string) => Finding
  /** By the URI of a client certificate, which the gRPC server has verified. */
  readonly certificate?: (uri: string) => Caller | undefined
  /** By the secret in the cookie of a browser. */
  readonly session?: (secret: string, purpose: SessionPurpose) => Finding
}

/**
 * Refuses calls without the credential that the method's policy asks for.
 *
 * @param auditKeys authenticate the audit entries of the caller's changes
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
  // If the call has a token, only the token counts: nothing else makes a wrong one good.
  if (authorization !== null) return undefined
  const secret = context?.session
  if (secret !== undefined) return session?.(secret, purpose)
  const uri = context?.clientUri
  return uri === undefined ? undefined : certificate?.(uri)
}

function unauthorized({ credential: what }: MethodPolicy): Fault {
  return new Fault('unauthorized', `A valid ${what} is required: Authorization: Bearer <${what}>`)
}

function requireKeyScope({ scopes: held }: BusinessCaller, policy: MethodPolicy): void {
  assert(policy.credential === 'secret key', 'a key is looked up only for a method for keys')
  const { scopes, openToUnscopedKeys } = policy
  if (held.size === 0 ? openToUnscopedKeys : scopes.some((scope) => held.has(scope))) return
  throw new Fault('permission_denied', `The key lacks the scope ${scopes.join(' or ')}`)
}

function requireScope({ scopes: held }: InternalCaller, policy: MethodPolicy): void {
  assert(policy.credential === 'token', 'a token is looked up only for a method for tokens')
  const { scopes } = policy
  if (held.has('admin') || scopes.some((scope) => held.has(scope))) return
  throw new Fault('permission_denied', `The token lacks the scope ${scopes.join(' or ')}`)
}
