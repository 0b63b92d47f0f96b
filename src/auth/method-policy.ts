import { type DescField, type DescMethod, getOption, hasOption } from '@bufbuild/protobuf'
import {
  Credential,
  type Policy,
  policy,
  Resource as ResourceMessage,
  type TenantScope as TenantScopeMessage,
} from '../../gen/inflow/auth/v1/policy_pb.ts'
import { assert, Fault } from '../core/errors.ts'
import { enumName } from '../protobuf/values.ts'
import { type CredentialStatus, KEY_SCOPES, type KeyScope, SCOPES, type Scope } from './caller.ts'

/** A kind of resource that belongs to a business. */
export type Resource = Exclude<keyof typeof ResourceMessage, 'UNSPECIFIED'>

/** The business and mode of a resource; they never change. */
export interface Owner {
  readonly businessId: string
  /** True in live mode; false in test mode. */
  readonly live: boolean
}

/** The request fields that contain the id of a resource. */
type OwnedFields = Readonly<Record<string, Resource>>

/**
 * How a method is confined to the businesses of a restricted token, from
 * `inflow.auth.v1.TenantScope`. Fields have their TypeScript names.
 */
export type TenantScope =
  | { readonly by: 'unrestricted' }
  | { readonly by: 'business'; readonly field: string }
  | { readonly by: 'businesses'; readonly field: string }
  | { readonly by: 'filtered'; readonly field?: string }
  | { readonly by: 'owned'; readonly fields: OwnedFields }

/** The credential that a method needs, with at least one of `scopes`; a token may have `admin` instead. */
export type MethodPolicy =
  | {
      readonly credential: 'secret key'
      readonly scopes: readonly KeyScope[]
      readonly openToUnscopedKeys: boolean
      /** The fields with ids of resources. For the caller, resources of other businesses or the other mode do not exist. */
      readonly owned: OwnedFields
    }
  | {
      readonly credential: 'token'
      readonly scopes: readonly Scope[]
      readonly tenantScope: TenantScope
      /** Fields that a restricted token may not set. */
      readonly unrestrictedFields: readonly DescField[]
    }

/** Returns the policy of a method; called for every call. */
export type PolicyOf = (method: DescMethod) => MethodPolicy

/**
 * Reads the policies of all methods from the contract.
 *
 * @throws Error if a method has no policy, or its policy does not match its request: the service does not start
 */
export function readPolicies(methods: readonly DescMethod[]): PolicyOf {
  const policies = new Map(methods.map((method) => [method, readPolicy(method)]))
  return (method) => {
    const found = policies.get(method)
    assert(found, 'every method that is served has a policy')
    return found
  }
}

/** @throws Error if the method has no policy, or its policy does not match its request */
export function readPolicy(method: DescMethod): MethodPolicy {
  const name = `${method.parent.typeName}.${method.name}`
  if (!hasOption(method, policy)) {
    throw new Error(`${name} has no option (inflow.auth.v1.policy)`)
  }
  const stated = getOption(method, policy)
  switch (stated.credential) {
    case Credential.SECRET_KEY:
      return {
        credential: 'secret key',
        scopes: readScopes(name, stated, KEY_SCOPES),
        openToUnscopedKeys: stated.openToUnscopedKeys,
        owned: readOwned(method, stated.tenantScope),
      }
    case Credential.TOKEN:
      return {
        credential: 'token',
        scopes: readScopes(name, stated, SCOPES),
        tenantScope: readTenantScope(method, stated.tenantScope?.rule),
        unrestrictedFields: stated.unrestrictedFields.map((field) => findField(method, field)),
      }
    default:
      throw new Error(`the policy of ${name} names no credential`)
  }
}

function readScopes<S extends string>(
  name: string,
  { scopes }: Policy,
  known: readonly S[],
): readonly S[] {
  const found = known.filter((scope) => scopes.includes(scope))
  if (scopes.length === 0 || found.length < scopes.length) {
    throw new Error(`the policy of ${name} needs scopes out of ${known.join(', ')}`)
  }
  return found
}

/** A key determines the business and mode, so methods for keys state only the fields with ids of resources. */
function readOwned(method: DescMethod, stated: TenantScopeMessage | undefined): OwnedFields {
  if (stated === undefined) return {}
  const scope = readTenantScope(method, stated.rule)
  if (scope.by === 'owned') return scope.fields
  throw new Error(`the policy of ${method.parent.typeName}.${method.name} confines keys by a field`)
}

function readTenantScope(
  method: DescMethod,
  rule: TenantScopeMessage['rule'] | undefined,
): TenantScope {
  switch (rule?.case) {
    case 'unrestrictedOnly':
      return { by: 'unrestricted' }
    case 'businessField':
      return { by: 'business', field: requireField(method, rule.value, 'scalar') }
    case 'businessesField':
      return { by: 'businesses', field: requireField(method, rule.value, 'list') }
    case 'businessFilter':
      if (rule.value === '') return { by: 'filtered' }
      return { by: 'filtered', field: requireField(method, rule.value, 'scalar') }
    case 'owned': {
      const fields = rule.value.resources.map(({ field, resource }) => {
        const kind = enumName(ResourceMessage, resource)
        if (kind === undefined) throw new Error(`${field} of ${method.input.typeName} has no kind`)
        return [requireField(method, field, 'scalar'), kind]
      })
      return { by: 'owned', fields: Object.fromEntries(fields) }
    }
    default:
      throw new Error(`the policy of ${method.parent.typeName}.${method.name} has no tenant scope`)
  }
}

function requireField(method: DescMethod, name: string, kind: DescField['fieldKind']): string {
  return findField(method, name, kind).localName
}

function findField({ input }: DescMethod, name: string, kind?: DescField['fieldKind']): DescField {
  const field = input.fields.find((each) => each.name === name)
  if (field === undefined || field.fieldKind !== (kind ?? field.fieldKind)) {
    throw new Error(`${input.typeName} has no ${kind ?? 'such'} field ${name} to confine tokens by`)
  }
  return field
}

/** How often a stream checks its credential. */
const CHECK_MS = 800

/** How long a stream may take to end by itself; it does not end if its subscriber does not read. */
const END_MS = 250

/**
 * Watches the credential of a stream. If the credential becomes invalid and the stream does not
 * end by itself, because its subscriber does not read, this aborts the call.
 *
 * @param ended aborts when the stream has ended
 */
export function watchCredential({ isValid, end }: CredentialStatus, ended: AbortSignal) {
  /** Aborts when the credential is no longer valid; the reason is the Fault with which the stream has to end. */
  const revoked = new AbortController()
  let checking = false
  let ending: NodeJS.Timeout | undefined
  const check = async (): Promise<void> => {
    if (ended.aborted) return stop()
    if (checking) return
    checking = true
    // While the database is unavailable, no credential can be revoked and no event can be read.
    const valid = await isValid().catch(() => true)
    checking = false
    if (valid || ended.aborted) return
    clearInterval(timer)
    const fault = new Fault('unauthorized', 'The token was revoked or has expired')
    ending = setTimeout(() => end(fault), END_MS)
    revoked.abort(fault)
  }
  const timer = setInterval(() => void check(), CHECK_MS)
  const stop = (): void => {
    clearInterval(timer)
    clearTimeout(ending)
  }
  return { revoked: revoked.signal, stop }
}
