import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  type Authentication as AuthenticationMessage,
  type ClientCertificate as ClientCertificateMessage,
  type ConfiguredOptions,
  ConfiguredOptionsSchema,
  type EndpointOptions,
} from '../../../gen/inflow/webhook/v1/endpoint_options_pb.ts'
import type { OrderBlock } from '../deliveries/delivery.ts'
import type { Endpoint } from '../endpoints/endpoint.entity.ts'
import { factsOf } from './apply-connection.ts'
import type {
  Authentication,
  ClientCertificate,
  Connection,
  ConnectionChange,
} from './connection.ts'

/** @param options a validated message; what is undefined keeps its value */
export function toRequestedOptions(options: EndpointOptions | undefined) {
  const { headers, authentication, clientCertificate, rateLimit, ordered } = options ?? {}
  const connection: ConnectionChange = {
    headers: headers?.headers.map(({ name, value }) => ({ name, value })),
    authentication: authentication && toAuthentication(authentication),
    certificate: clientCertificate && toCertificate(clientCertificate),
  }
  return { connection, rateLimit, ordered }
}

/** @returns null if there is no method, which removes the current method */
function toAuthentication({ method }: AuthenticationMessage): Authentication | null {
  if (method.case === undefined) return null
  if (method.case === 'basic') {
    const { username, password } = method.value
    return { method: 'basic', username, password }
  }
  const { tokenUrl, clientId, clientSecret, scope, audience, credentialsInBody } = method.value
  return {
    method: 'oauth2',
    tokenUrl,
    clientId,
    clientSecret,
    scope,
    audience,
    credentialsInBody,
  }
}

/** @returns null if both are empty, which removes the current certificate */
function toCertificate(message: ClientCertificateMessage): ClientCertificate | null {
  const { certificatePem: cert, privateKeyPem: key } = message
  return cert === '' && key === '' ? null : { cert, key }
}

/** The options without their secrets. */
export function toConfiguredOptions(
  { rateLimit, ordered }: Pick<Endpoint, 'rateLimit' | 'ordered'>,
  connection: Connection | undefined,
  blockedBy: OrderBlock | undefined,
): ConfiguredOptions {
  return create(ConfiguredOptionsSchema, {
    rateLimit,
    ordered,
    ...(blockedBy && { blockedBy: toBlockMessage(blockedBy) }),
    headerNames: connection?.headers.map(({ name }) => name) ?? [],
    authentication: shownAuthentication(connection?.authentication),
    ...(connection?.certificate && {
      clientCertificate: shownCertificate(connection.certificate),
    }),
  })
}

function shownAuthentication(
  authentication: Authentication | undefined,
): NonNullable<MessageInitShape<typeof ConfiguredOptionsSchema>['authentication']> {
  if (authentication === undefined) return { case: undefined }
  if (authentication.method === 'basic') {
    return { case: 'basicUsername', value: authentication.username }
  }
  const { tokenUrl, clientId, scope, audience, credentialsInBody } = authentication
  return { case: 'oauth2', value: { tokenUrl, clientId, scope, audience, credentialsInBody } }
}

function toBlockMessage({ deliveryId, attempts, error, dueAtMs, waiting }: OrderBlock) {
  return {
    deliveryId,
    attemptCount: attempts,
    error,
    waitingCount: waiting,
    dueAt: timestampFromMs(dueAtMs),
  }
}

function shownCertificate(certificate: ClientCertificate) {
  const { subject, fingerprint, expiresAt } = factsOf(certificate)
  return { subject, fingerprintSha256: fingerprint, expiresAt: timestampFromDate(expiresAt) }
}
