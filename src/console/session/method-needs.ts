import { type DescMethod, getOption } from '@bufbuild/protobuf'
import { Credential, policy } from '../../../gen/inflow/auth/v1/policy_pb.ts'

/** The requirements for calling a method. */
export interface MethodNeeds {
  /** The caller needs one of these scopes; empty: no token may call the method. */
  readonly scopes: readonly string[]
  /** Whether tokens that are restricted to businesses cannot call the method. */
  readonly isUnrestricted: boolean
}

export function needsOf(method: DescMethod): MethodNeeds {
  const { credential, scopes, tenantScope } = getOption(method, policy)
  return {
    scopes: credential === Credential.TOKEN ? ['admin', ...scopes] : [],
    isUnrestricted: tenantScope?.rule.case === 'unrestrictedOnly',
  }
}
