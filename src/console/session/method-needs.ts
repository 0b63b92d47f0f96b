import { type DescMethod, getOption } from '@bufbuild/protobuf'
import { Credential, policy } from '../../../gen/inflow/auth/v1/policy_pb.ts'

/** What a caller needs to call a method. */
export interface MethodNeeds {
  /** One of these; none: no token may call it. */
  readonly scopes: readonly string[]
  /** Not for a token that is restricted to businesses. */
  readonly isUnrestricted: boolean
}

export function needsOf(method: DescMethod): MethodNeeds {
  const { credential, scopes, tenantScope } = getOption(method, policy)
  return {
    scopes: credential === Credential.TOKEN ? ['admin', ...scopes] : [],
    isUnrestricted: tenantScope?.rule.case === 'unrestrictedOnly',
  }
}
