import { type DescField, type DescMethod, getOption, hasOption } from '@bufbuild/protobuf'
import {
  Credential,
  type Policy,
  policy,
  Resource as ResourceMessage,
  type TenantScope as TenantScopeMessage,
} from '../../gen/inflow/auth/v1/policy_pb.ts'
import { assert } from '../core/errors.ts'
import { SCOPES, type Scope } from './caller.ts'

/** A kind of resource that belongs to a business. */
export type Resource = 'key' | 'endpoint' | 'delivery' | 'event' | 'transaction'

/**
 * How a method is confined to the businesses that a token is restricted to, as
 * `inflow.auth.v1.TenantScope` states it. Fields are named as in TypeScript.
 */
export type TenantScope =
  | { readonly by: 'unrestricted' }
  | { readonly by: 'business'; readonly field: string }
  | { readonly by: 'businesses'; readonly field: string }
  | { readonly by: 'filtered'; readonly field?: string }
  | { readonly by: 'owned'; readonly fields: Readonly<Record<string, Resource>> }

/** The credential that a method needs. A token needs any of `scopes`, or `admin`. */
export type MethodPolicy =
  | { readonly credential: 'secret key' }
  | {
      readonly credential: 'token'
      readonly scopes: readonly Scope[]
      readonly tenantScope: TenantScope
      /** Fields that a restricted token may not set. */
      readonly unrestrictedFields: readonly DescField[]
    }

/** Returns the policy of a method. Every call uses it. */
export type PolicyOf = (method: DescMethod) => MethodPolicy

const RESOURCES: Readonly<Record<ResourceMessage, Resource | undefined>> = {
  [ResourceMessage.UNSPECIFIED]: undefined,
  [ResourceMessage.KEY]: 'key',
  [ResourceMessage.ENDPOINT]: 'endpoint',
  [ResourceMessage.DELIVERY]: 'delivery',
  [ResourceMessage.EVENT]: 'event',
  [ResourceMessage.TRANSACTION]: 'transaction',
}

/**
 * Reads the policies of all methods from the contract. The service does not start if a method has
 * no policy.
 *
 * @throws Error when a method has no policy, or its policy does not match its request
 */
export function readPolicies(methods: readonly DescMethod[]): PolicyOf {
  const policies = new Map(methods.map((method) => [method, readPolicy(method)]))
  return (method) => {
    const found = policies.get(method)
    assert(found, 'every method that is served has a policy')
    return found
  }
}

/** @throws Error when the method has no policy, or its policy does not match its request */
export function readPolicy(method: DescMethod): MethodPolicy {
  const name = `${method.parent.typeName}.${method.name}`
  if (!hasOption(method, policy)) {
    throw new Error(`${name} has no option (inflow.auth.v1.policy)`)
  }
  const stated = getOption(method, policy)
  switch (stated.credential) {
    case Credential.SECRET_KEY:
      return { credential: 'secret key' }
    case Credential.TOKEN:
      return {
        credential: 'token',
        scopes: readScopes(name, stated),
        tenantScope: readTenantScope(method, stated.tenantScope?.rule),
        unrestrictedFields: stated.unrestrictedFields.map((field) => findField(method, field)),
      }
    default:
      throw new Error(`the policy of ${name} names no credential`)
  }
}

function readScopes(name: string, { scopes }: Policy): readonly Scope[] {
  const known: readonly string[] = SCOPES
  const unknown = scopes.filter((scope) => !known.includes(scope))
  if (scopes.length === 0 || unknown.length > 0) {
    throw new Error(`the policy of ${name} needs scopes out of ${SCOPES.join(', ')}`)
  }
  return scopes as readonly Scope[]
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
        const kind = RESOURCES[resource]
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
