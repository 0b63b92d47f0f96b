import { create, type MessageInitShape } from '@bufbuild/protobuf'
import {
  type Authentication as AuthenticationMessage,
  type ConfiguredOptions,
  ConfiguredOptionsSchema,
  type EndpointOptions,
} from '../../../gen/inflow/webhook/v1/endpoint_options_pb.ts'
import type { Authentication, Connection, ConnectionChange } from './connection.ts'

/** @param options a validated message; absent fields keep their values */
export function toConnectionChange(options: EndpointOptions | undefined): ConnectionChange {
  const { headers, authentication } = options ?? {}
  return {
    headers: headers?.headers.map(({ name, value }) => ({ name, value })),
    authentication: authentication && toAuthentication(authentication),
  }
}

/** @returns null if there is no method, which removes the one there was */
function toAuthentication({ method }: AuthenticationMessage): Authentication | null {
  if (method.case === undefined) return null
  const { username, password } = method.value
  return { method: 'basic', username, password }
}

/** The options without their secrets. */
export function toConfiguredOptions(connection: Connection | undefined): ConfiguredOptions {
  return create(ConfiguredOptionsSchema, {
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
