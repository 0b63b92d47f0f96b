import { type DescMethod, getOption, hasOption } from '@bufbuild/protobuf'
import { field as fieldRules } from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'
import { Credential, policy, type Resource } from '../../../gen/inflow/auth/v1/policy_pb.ts'

// What the contract alone states of a call. It shares no code with the service, so that a rule that
// the service reads or enforces wrongly is noticed.

/** The caller that a credential makes. */
export type Caller =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'business'
      /** None: a key that was issued without scopes. */
      readonly scopes: readonly string[]
    }
  | {
      readonly kind: 'token'
      readonly scopes: readonly string[]
    }

/** How a call ends before it gets to the method; OPEN: it gets there. */
export type Verdict = 'OPEN' | 'UNAUTHENTICATED' | 'PERMISSION_DENIED' | 'INVALID_ARGUMENT'

/** Whether a credential opens a method at all. */
export function verdictOf(method: DescMethod, caller: Caller): Verdict {
  const { credential, scopes, openToUnscopedKeys } = getOption(method, policy)
  if (credential === Credential.SECRET_KEY) {
    if (caller.kind !== 'business') return 'UNAUTHENTICATED'
    const named = caller.scopes.some((scope) => scopes.includes(scope))
    return named || (caller.scopes.length === 0 && openToUnscopedKeys)
      ? 'OPEN'
      : 'PERMISSION_DENIED'
  }
  if (caller.kind !== 'token') return 'UNAUTHENTICATED'
  const enough = caller.scopes.some((scope) => scope === 'admin' || scopes.includes(scope))
  return enough ? 'OPEN' : 'PERMISSION_DENIED'
}

/** Whether the method is for tokens. */
export function isForTokens(method: DescMethod): boolean {
  return getOption(method, policy).credential === Credential.TOKEN
}

/** The businesses that a restricted token asks for: its own, another's, both, or none by name. */
export type Asked = 'own' | 'foreign' | 'both' | 'none'

/** How the contract confines restricted tokens; fields are named as in TypeScript. */
export interface Confinement {
  readonly rule: 'refused' | 'business' | 'businesses' | 'filter' | 'owned'
  /** The field that names businesses; undefined: there is none. */
  readonly field?: string | undefined
  /** The fields that name resources. */
  readonly owned: readonly { readonly field: string; readonly resource: Resource }[]
}

export function confinementOf(method: DescMethod): Confinement {
  const rule = getOption(method, policy).tenantScope?.rule
  const local = (name: string) => method.input.fields.find((each) => each.name === name)?.localName
  switch (rule?.case) {
    case 'unrestrictedOnly':
      return { rule: 'refused', owned: [] }
    case 'businessField':
      return { rule: 'business', field: local(rule.value)!, owned: [] }
    case 'businessesField':
      return { rule: 'businesses', field: local(rule.value)!, owned: [] }
    case 'businessFilter':
      return { rule: 'filter', field: local(rule.value), owned: [] }
    case 'owned': {
      const owned = rule.value.resources.map(({ field, resource }) => ({
        field: local(field)!,
        resource,
      }))
      return { rule: 'owned', owned }
    }
    default:
      throw new Error(`${method.name} is not confined`)
  }
}

/** What a restricted token gets that asks for businesses in the field of the method. */
export function confinedVerdict(method: DescMethod, asked: Asked): Verdict {
  const { rule, field } = confinementOf(method)
  if (rule === 'refused') return 'PERMISSION_DENIED'
  if (rule === 'owned' || field === undefined) return 'OPEN'
  if (asked === 'foreign' || asked === 'both') return 'PERMISSION_DENIED'
  if (asked === 'own' || rule !== 'business') return 'OPEN'
  return isRequired(method, field) ? 'INVALID_ARGUMENT' : 'PERMISSION_DENIED'
}

function isRequired({ input }: DescMethod, localName: string): boolean {
  const field = input.fields.find((each) => each.localName === localName)!
  return hasOption(field, fieldRules) && getOption(field, fieldRules).required
}
