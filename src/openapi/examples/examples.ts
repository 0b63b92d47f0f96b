import type { DescMethod, JsonObject } from '@bufbuild/protobuf'
import { REQUESTS } from './requests.ts'
import { RESPONSES } from './responses.ts'

/** A request of a REST path, and the response to it. */
export interface Example {
  readonly request: JsonObject
  readonly response: JsonObject
}

/** @throws Error for a method without an example */
export function exampleOf({ name }: DescMethod): Example {
  const [request, response] = [REQUESTS[name], RESPONSES[name]]
  if (!request || !response) throw new Error(`${name} has no example`)
  return { request, response }
}
