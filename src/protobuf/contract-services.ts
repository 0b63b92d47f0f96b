import { type DescMethod, type DescService, getOption } from '@bufbuild/protobuf'
import * as contract from '../../gen/contract.ts'
import { http } from '../../gen/google/api/annotations_pb.ts'

/** Every service of the contract, in the order of their names. */
export const SERVICES: readonly DescService[] = [
  ...Object.values(contract),
  ...Object.values(contract.thirdparty),
]
  .filter((each): each is typeof each & DescService => 'kind' in each && each.kind === 'service')
  .sort((one, other) => (one.typeName < other.typeName ? -1 : 1))

/** Returns the REST path of a method, without a slash at its end; undefined: it has none. */
export function restPath(method: DescMethod): string | undefined {
  if (!method.proto.options) return undefined
  const { pattern } = getOption(method, http)
  return pattern.case === 'post' ? pattern.value : undefined
}
