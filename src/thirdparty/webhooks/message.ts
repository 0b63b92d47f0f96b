import { create } from '@bufbuild/protobuf'
import {
  type DeliveryAttempt,
  DeliveryAttemptSchema,
  type Delivery as DeliveryMessage,
  DeliverySchema,
  type Webhook,
  WebhookSchema,
} from '../../../gen/inflow/thirdparty/v2/webhook_pb.ts'
import type { TimeText } from '../../core/clock.ts'
import type { StoredAttempt, StoredDelivery } from '../../webhooks/deliveries/delivery.ts'
import type { EndpointWithSecrets } from '../../webhooks/message.ts'

type Endpoint = EndpointWithSecrets['endpoint']

/** @param secret the signing secret, when the endpoint is created */
export function toWebhook(endpoint: Endpoint, timeText: TimeText, secret?: string): Webhook {
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
    ...(secret !== undefined && { secret }),
  })
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
