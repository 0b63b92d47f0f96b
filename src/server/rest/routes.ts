import { type DescMethod, getOption, type Message, toJson } from '@bufbuild/protobuf'
import { http } from '../../../gen/google/api/annotations_pb.ts'
import type { Invoker } from '../rpc/invokers.ts'
import { compileFindUnknown } from '../rpc/unknown-fields.ts'
import { compileDecoder, type Decoder } from './decode.ts'

/** One REST path and the method behind it. */
export interface Route {
  /** The path, without a slash at its end. */
  readonly path: string
  readonly invoker: Invoker
  readonly decode: Decoder
  /** Writes every field except those with explicit presence that are not set. */
  readonly encode: (response: Message) => string
}

/**
 * Reads `google.api.http` from the descriptors.
 *
 * @throws Error for anything but POST with the whole body, which is all that the contract uses
 */
export function readRoutes(invokers: readonly Invoker[]): readonly Route[] {
  return invokers.flatMap((invoker) => {
    const path = postPath(invoker.method)
    if (path === undefined) return []
    const decode = compileDecoder(invoker.method.input, compileFindUnknown(invoker.method))
    const encode = (response: Message) =>
      JSON.stringify(toJson(invoker.method.output, response, { alwaysEmitImplicit: true }))
    return [{ path, invoker, decode, encode }]
  })
}

function postPath(method: DescMethod): string | undefined {
  const options = method.proto.options
  if (!options) return undefined
  const rule = getOption(method, http)
  if (rule.pattern.case === undefined) return undefined
  const path = rule.pattern.value
  if (rule.pattern.case !== 'post' || typeof path !== 'string' || rule.body !== '*') {
    throw new Error(`${method.name}: only POST with body "*" is served`)
  }
  if (!/^(\/[A-Za-z0-9]+)+$/.test(path))
    throw new Error(`${method.name}: "${path}" is no fixed path`)
  return path
}
