import { create, type MessageInitShape } from '@bufbuild/protobuf'
import {
  type Authentication as AuthenticationMessage,
  type ConfiguredOptions,
  ConfiguredOptionsSchema,
  type EndpointOptions,
} from '../../../gen/inflow/webhook/v1/endpoint_options_pb.ts'
import type { Endpoint } from '../endpoints/endpoint.entity.ts'
import type { Authentication, Connection, ConnectionChange } from './connection.ts'

/** The options to set; undefined keeps the value. */
interface RequestedOptions {
  readonly connection: ConnectionChange
  readonly rateLimit: number | undefined
}

/** @param options a validated message; absent fields keep their values */
export function toRequestedOptions(options: EndpointOptions | undefined): RequestedOptions {
  const { headers, authentication, rateLimit } = options ?? {}
  const connection = {
    headers: headers?.headers.map(({ name, value }) => ({ name, value })),
    authentication: authentication && toAuthentication(authentication),
  }
  return { connection, rateLimit }
}

/** @returns null if there is no method, which removes the one there was */
function toAuthentication({ method }: AuthenticationMessage): Authentication | null {
  if (method.case === undefined) return null
  const { username, password } = method.value
  return { method: 'basic', username, password }
}

/** The options without their secrets. */
export function toConfiguredOptions(
  { rateLimit }: Pick<Endpoint, 'rateLimit'>,
  connection: Connection | undefined,
): ConfiguredOptions {
  return create(ConfiguredOptionsSchema, {
    rateLimit,
    headerNames: connection?.headers.map(({ name }) => name) ?? [],
    authentication: shownAuthentication(connection?.authentication),
  })
}

function shownAuthentication(
  authentication: Authentication | undefined,
): NonNullable<MessageInitShape<typeof ConfiguredOptionsSchema>['authentication']> {
  if (authentication === undefined) return { case: undefined }
  return { case: 'basicUsername', value: authentication.username }
}
