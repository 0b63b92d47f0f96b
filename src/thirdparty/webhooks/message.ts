import { create } from '@bufbuild/protobuf'
import {
  ConfiguredOptionsSchema,
  type CreateWebhookRequest,
  type DeliveryAttempt,
  DeliveryAttemptSchema,
  type Delivery as DeliveryMessage,
  DeliverySchema,
  type Webhook,
  WebhookSchema,
} from '../../../gen/inflow/thirdparty/v2/webhook_pb.ts'
import type { TimeText } from '../../core/clock.ts'
import { factsOf } from '../../webhooks/connections/client-certificate.ts'
import type {
  ClientCertificate,
  Connection,
  OAuth2Client,
} from '../../webhooks/connections/connection.ts'
import type {
  OrderBlock,
  StoredAttempt,
  StoredDelivery,
} from '../../webhooks/deliveries/delivery.ts'
import type { RequestFormat } from '../../webhooks/endpoints/endpoint.ts'
import type { EndpointWithSecrets } from '../../webhooks/message.ts'

/** The format that a new endpoint requests, as validation has admitted it. */
export function toRequestFormat(request: CreateWebhookRequest): RequestFormat {
  return {
    profile: request.profile === 'WIAXY' ? 'WIAXY' : 'STANDARD',
    legacySignature: (request.legacySignature || null) as RequestFormat['legacySignature'],
    eventName: request.eventName || null,
    payerAsArray: request.payerAsArray,
  }
}

/** @param secret the signing secret, when the endpoint is created; empty if the request had it */
export function toWebhook(
  { endpoint, connection, blockedBy }: EndpointWithSecrets,
  timeText: TimeText,
  secret?: string,
): Webhook {
  const { failingSince, disabledAt, disabledReason } = endpoint
  const format = (time: Date) => timeText.format(time.getTime())
  return create(WebhookSchema, {
    endpointId: endpoint.id,
    url: endpoint.url,
    kinds: endpoint.kinds,
    description: endpoint.description,
    concurrency: endpoint.concurrency,
    status: disabledAt ? 'DISABLED' : 'ENABLED',
    createdAt: format(endpoint.createdAt),
    ...(failingSince && { failingSince: format(failingSince) }),
    ...(disabledAt && { disabledAt: format(disabledAt) }),
    ...(disabledReason && { disabledReason }),
    ...(secret && { secret }),
    profile: endpoint.profile ?? 'STANDARD',
    ...(endpoint.legacySignature !== null && { legacySignature: endpoint.legacySignature }),
    ...(endpoint.eventName !== null && { eventName: endpoint.eventName }),
    payerAsArray: endpoint.payerAsArray,
    options: create(ConfiguredOptionsSchema, {
      ...{ rateLimit: endpoint.rateLimit, ordered: endpoint.ordered },
      ...(connection && toConnection(connection, format)),
      ...(blockedBy && { blockedBy: toBlock(blockedBy, timeText) }),
    }),
  })
}

/** What requests carry, without its secrets. */
function toConnection(
  { headers, authentication, certificate }: Connection,
  format: (time: Date) => string,
) {
  return {
    headerNames: headers.map(({ name }) => name),
    ...(authentication?.method === 'basic' && { basicUsername: authentication.username }),
    ...(authentication?.method === 'oauth2' && { oauth2: toOAuth2(authentication) }),
    ...(certificate && { clientCertificate: toCertificate(certificate, format) }),
  }
}

function toOAuth2({ tokenUrl, clientId, scope, audience, credentialsInBody }: OAuth2Client) {
  return { tokenUrl, clientId, scope, audience, credentialsInBody }
}

function toCertificate(certificate: ClientCertificate, format: (time: Date) => string) {
  const { subject, fingerprint, expiresAt } = factsOf(certificate)
  return { subject, fingerprintSha256: fingerprint, expiresAt: format(expiresAt) }
}

function toBlock(
  { deliveryId, attempts, error, dueAtMs, waiting }: OrderBlock,
  timeText: TimeText,
) {
  const dueAt = timeText.format(dueAtMs)
  return { deliveryId, attemptCount: attempts, error, dueAt, waitingCount: waiting }
}

export function toDelivery(delivery: StoredDelivery, timeText: TimeText): DeliveryMessage {
  const { dueAtMs, completedAtMs, latestAttempt } = delivery
  return create(DeliverySchema, {
    deliveryId: delivery.id,
    endpointId: delivery.endpointId,
    eventId: delivery.eventId,
    event: delivery.eventKind,
    status: delivery.state,
    attemptCount: delivery.attempts,
    createdAt: timeText.format(delivery.createdAtMs),
    ...(dueAtMs !== null && { dueAt: timeText.format(dueAtMs) }),
    ...(completedAtMs !== null && { completedAt: timeText.format(completedAtMs) }),
    failure: delivery.failure,
    ...(latestAttempt && { latestAttempt: toAttempt(latestAttempt, timeText) }),
  })
}

function toAttempt(attempt: StoredAttempt, timeText: TimeText): DeliveryAttempt {
  return create(DeliveryAttemptSchema, {
    number: attempt.number,
    startedAt: timeText.format(attempt.startedAtMs),
    latencyMs: attempt.latencyMs,
    statusCode: attempt.status,
    responseBody: attempt.responseBody,
    error: attempt.error,
  })
}
