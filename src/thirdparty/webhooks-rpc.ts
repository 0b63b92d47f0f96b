import { create } from '@bufbuild/protobuf'
import type { ServiceImpl } from '@connectrpc/connect'
import type { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import {
  ConfiguredOptionsSchema,
  type CreateWebhookRequest,
  type DeliveryAttempt,
  DeliveryAttemptSchema,
  type Delivery as DeliveryMessage,
  DeliverySchema,
  type Webhook,
  WebhookSchema,
} from '../../gen/inflow/thirdparty/v2/webhook_pb.ts'
import { actorOf, callingBusiness } from '../auth/caller.ts'
import type { TimeText } from '../core/clock.ts'
import type { Semaphore } from '../postgres/semaphore.ts'
import { factsOf } from '../webhooks/connections/apply-connection.ts'
import type {
  ClientCertificate,
  Connection,
  OAuth2Client,
} from '../webhooks/connections/connection.ts'
import { toRequestedOptions } from '../webhooks/connections/message.ts'
import type {
  DeliveryState,
  OrderBlock,
  StoredAttempt,
  StoredDelivery,
} from '../webhooks/deliveries/delivery.ts'
import { listDeliveries } from '../webhooks/deliveries/read-deliveries.ts'
import { redeliver, sendTestEvent, skipDelivery } from '../webhooks/deliveries/redeliver.ts'
import type { EndpointContext, RequestFormat } from '../webhooks/endpoints/endpoint.ts'
import { listEndpoints } from '../webhooks/endpoints/list-endpoints.ts'
import {
  createEndpoint,
  deleteEndpoint,
  updateEndpoint,
} from '../webhooks/endpoints/update-endpoint.ts'
import type { EndpointWithSecrets } from '../webhooks/message.ts'
import { succeed, toPageToken } from './message.ts'

export interface WebhookDependencies {
  readonly webhooks: EndpointContext
  /** Limits how many changes hold a connection while they wait for a row or the audit log. */
  readonly changes: Semaphore
  readonly timeText: TimeText
}

/**
 * The methods of a business for its webhook endpoints. Requests can only name resources of the business and mode: the method
 * policies replace any other id by an id that no resource has.
 */
export function createWebhookMethods({ webhooks, changes, timeText }: WebhookDependencies) {
  return {
    async createWebhook(request, context) {
      const { businessId, live } = callingBusiness(context)
      const options = toRequestedOptions(request.options)
      const format = toRequestFormat(request)
      const requested = { ...request, ...options, format, businessId, live, uniqueUrl: true }
      const created = await changes(() => createEndpoint(webhooks, requested, actorOf(context)))
      const data = toWebhook(created, timeText, created.secret)
      return succeed('Webhook created', data)
    },
    async listWebhooks(_request, context) {
      const { businessId, live } = callingBusiness(context)
      const list = { businessIds: [businessId], live, pageSize: 0, pageToken: '' }
      const { rows } = await listEndpoints(webhooks, list)
      const data = { webhooks: rows.map((each) => toWebhook(each, timeText)) }
      return succeed('Webhooks retrieved', data)
    },
    async updateWebhook(request, context) {
      const options = toRequestedOptions(request.options)
      const change = { ...request, ...options, uniqueUrl: true }
      const updated = await changes(() => updateEndpoint(webhooks, change, actorOf(context)))
      return succeed('Webhook updated', toWebhook(updated, timeText))
    },
    async deleteWebhook({ endpointId }, context) {
      await changes(() => deleteEndpoint(webhooks, endpointId, actorOf(context)))
      return succeed('Webhook deleted', { endpointId })
    },
    async testWebhook({ endpointId }, context) {
      const eventId = await changes(() => sendTestEvent(webhooks, endpointId, actorOf(context)))
      return succeed('Test event sent', { eventId })
    },
    async listDeliveries({ endpointId, eventId, status, pageSize, pageToken }) {
      const { rows, nextPageToken } = await listDeliveries(webhooks.database.durablePool, {
        endpointId: endpointId || undefined,
        eventId: eventId || undefined,
        states: status === '' ? undefined : [status as DeliveryState],
        pageSize,
        pageToken,
      })
      const deliveries = rows.map((delivery) => toDelivery(delivery, timeText))
      return succeed('Deliveries retrieved', { deliveries, ...toPageToken(nextPageToken) })
    },
    async redeliver({ deliveryId }, context) {
      const delivery = await changes(() => redeliver(webhooks, deliveryId, actorOf(context)))
      return succeed('Delivery sent again', toDelivery(delivery, timeText))
    },
    async skipDelivery({ deliveryId }, context) {
      const delivery = await changes(() => skipDelivery(webhooks, deliveryId, actorOf(context)))
      return succeed('Delivery skipped', toDelivery(delivery, timeText))
    },
  } satisfies Partial<ServiceImpl<typeof ThirdPartyService>>
}

/** The format that a new endpoint requests, as validation has admitted it. */
function toRequestFormat(request: CreateWebhookRequest): RequestFormat {
  return {
    profile: request.profile === 'WIAXY' ? 'WIAXY' : 'STANDARD',
    legacySignature: (request.legacySignature || null) as RequestFormat['legacySignature'],
    eventName: request.eventName || null,
    payerAsArray: request.payerAsArray,
  }
}

/** @param secret the signing secret, when the endpoint is created; empty if the request had it */
function toWebhook(
  { endpoint, connection, blockedBy }: EndpointWithSecrets,
  timeText: TimeText,
  secret?: string,
): Webhook {
  const { failingSince, disabledAt, disabledReason } = endpoint
  const { profile, legacySignature, eventName, payerAsArray } = endpoint.format
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
    profile: profile ?? 'STANDARD',
    ...(legacySignature !== null && { legacySignature }),
    ...(eventName !== null && { eventName }),
    payerAsArray,
    options: create(ConfiguredOptionsSchema, {
      rateLimit: endpoint.rateLimit,
      ordered: endpoint.ordered,
      ...(connection && toConnection(connection, format)),
      ...(blockedBy && { blockedBy: toBlock(blockedBy, timeText) }),
    }),
  })
}

/** The connection of an endpoint, without its secrets. */
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

function toDelivery(delivery: StoredDelivery, timeText: TimeText): DeliveryMessage {
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
    ...attempt,
    startedAt: timeText.format(attempt.startedAtMs),
    statusCode: attempt.status,
  })
}
