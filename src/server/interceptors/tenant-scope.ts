import { type DescMethod, isFieldSet, type Message } from '@bufbuild/protobuf'
import type { Interceptor } from '@connectrpc/connect'
import { callerKey, restrictionOf } from '../../auth/caller.ts'
import type { MethodPolicy, Owner, PolicyOf, Resource } from '../../auth/method-policy.ts'
import { assert, Fault } from '../../core/errors.ts'

/** Return whose a resource is; undefined: there is no such resource. */
export type Owners = Readonly<Record<Resource, (id: string) => Promise<Owner | undefined>>>

/** An id that no resource has. */
const UNKNOWN_ID = '-'

type TokenPolicy = Extract<MethodPolicy, { credential: 'token' }>

/**
 * Confines keys to their business and mode, and restricted tokens to their businesses, as the method's
 * policy says. It runs after validation, on the same texts that the implementation gets.
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
