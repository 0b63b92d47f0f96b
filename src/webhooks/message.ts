import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  type Attempt as AttemptMessage,
  AttemptSchema,
  type Delivery as DeliveryMessage,
  DeliverySchema,
  DeliveryStatus,
} from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import {
  DisabledReason,
  type Endpoint as EndpointMessage,
  EndpointProfile,
  EndpointSchema,
  EndpointStatus,
  LegacySignature,
} from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import type {
  CreateEndpointRequest,
  UpdateEndpointRequest,
} from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { Connection } from './connections/connection.ts'
import { toConfiguredOptions } from './connections/message.ts'
import type {
  DeliveryState,
  OrderBlock,
  StoredAttempt,
  StoredDelivery,
} from './deliveries/delivery.ts'
import type { Endpoint, Secret } from './endpoints/endpoint.entity.ts'
import type { EndpointEventKind, RequestFormat } from './endpoints/endpoint.ts'
import type { FormatChange } from './endpoints/request-format.ts'

/** An endpoint with its active signing secrets, newest first, and what else requests carry. */
export interface EndpointWithSecrets {
  readonly endpoint: Endpoint
  readonly secrets: readonly Secret[]
  readonly connection: Connection | undefined
  /** What the next events of an ordered endpoint wait for; only in lists. */
  readonly blockedBy?: OrderBlock | undefined
}

export function toEndpointMessage(described: EndpointWithSecrets): EndpointMessage {
  const { endpoint, secrets, connection, blockedBy } = described
  const { disabledAt, failingSince } = endpoint
  const { profile, legacySignature, eventName, payerAsArray } = endpoint.format
  return create(EndpointSchema, {
    id: endpoint.id,
    businessId: endpoint.business.id,
    url: endpoint.url,
    kinds: endpoint.kinds,
    description: endpoint.description,
    createdAt: timestampFromDate(endpoint.createdAt),
    status: disabledAt ? EndpointStatus.DISABLED : EndpointStatus.ENABLED,
    disabledReason: endpoint.disabledReason ? DisabledReason[endpoint.disabledReason] : 0,
    ...(disabledAt && { disabledAt: timestampFromDate(disabledAt) }),
    ...(failingSince && { failingSince: timestampFromDate(failingSince) }),
    concurrency: endpoint.concurrency,
    live: endpoint.live,
    secrets: secrets.map(({ createdAt, expiresAt, isNext }) => ({
      createdAt: timestampFromDate(createdAt),
      ...(expiresAt && { expiresAt: timestampFromDate(expiresAt) }),
      next: isNext,
    })),
    profile: EndpointProfile[profile ?? 'STANDARD'],
    wiaxyHeaders: profile === null,
    legacySignature: legacySignature ? LegacySignature[legacySignature] : 0,
    eventName: eventName ?? '',
    payerAsArray,
    options: toConfiguredOptions(endpoint, connection, blockedBy),
  })
}

/** The format that a new endpoint requests. */
export function toRequestFormat(
  request: Pick<
    CreateEndpointRequest,
    'profile' | 'legacySignature' | 'eventName' | 'payerAsArray'
  >,
): RequestFormat {
  return {
    profile: request.profile === EndpointProfile.WIAXY ? 'WIAXY' : 'STANDARD',
    legacySignature: toLegacySignature(request.legacySignature),
    eventName: request.eventName || null,
    payerAsArray: request.payerAsArray,
  }
}

export function toFormatChange(
  request: Pick<UpdateEndpointRequest, 'legacySignature' | 'eventName' | 'payerAsArray'>,
): FormatChange {
  const { legacySignature, eventName, payerAsArray } = request
  return {
    ...(legacySignature !== undefined && {
      legacySignature: toLegacySignature(legacySignature),
    }),
    ...(eventName !== undefined && { eventName: eventName || null }),
    ...(payerAsArray !== undefined && { payerAsArray }),
  }
}

function toLegacySignature(message: LegacySignature): RequestFormat['legacySignature'] {
  const names = ['MD5', 'HMAC_BODY'] as const
  return names.find((name) => LegacySignature[name] === message) ?? null
}

/**
 * Encodes an event about an endpoint, without its position in the log. It has only the origin of the URL: the event
 * goes to other receivers, and paths and queries may hold secrets.
 */
export function encodeEndpointEvent(
  endpoint: Endpoint,
  event: { readonly eventId: string; readonly kind: EndpointEventKind; readonly nowMs: number },
): Uint8Array {
  const value = toEndpointMessage({ endpoint, secrets: [], connection: undefined })
  delete value.options
  value.url = new URL(endpoint.url).origin
  const message = create(EventSchema, {
    id: event.eventId,
    businessId: endpoint.business.id,
    kind: event.kind,
    occurredAt: timestampFromMs(event.nowMs),
    live: endpoint.live,
    payload: { case: 'endpoint', value },
  })
  return toBinary(EventSchema, message)
}

export function toDeliveryMessage(delivery: StoredDelivery): DeliveryMessage {
  const { dueAtMs, completedAtMs, latestAttempt } = delivery
  return create(DeliverySchema, {
    id: delivery.id,
    endpointId: delivery.endpointId,
    endpointUrl: delivery.endpointUrl,
    endpointDescription: delivery.endpointDescription,
    eventId: delivery.eventId,
    eventKind: delivery.eventKind,
    status: DeliveryStatus[delivery.state],
    attemptCount: delivery.attempts,
    createdAt: timestampFromMs(delivery.createdAtMs),
    ...(dueAtMs !== null && { dueAt: timestampFromMs(dueAtMs) }),
    ...(completedAtMs !== null && { completedAt: timestampFromMs(completedAtMs) }),
    failure: delivery.failure,
    ...(latestAttempt && { latestAttempt: toAttemptMessage(latestAttempt) }),
    ...(delivery.event && toPayment(delivery.event)),
  })
}

function toPayment(event: Uint8Array): MessageInitShape<typeof DeliverySchema> {
  const { payload } = fromBinary(EventSchema, event)
  if (payload.case !== 'transaction') return {}
  const { id, amountMinor, customerName } = payload.value
  return { payment: { transactionId: id, amountMinor, customerName } }
}

export function toAttemptMessage(attempt: StoredAttempt): AttemptMessage {
  return create(AttemptSchema, {
    number: attempt.number,
    startedAt: timestampFromMs(attempt.startedAtMs),
    latencyMs: attempt.latencyMs,
    statusCode: attempt.status,
    responseBody: attempt.responseBody,
    error: attempt.error,
  })
}

/** @returns undefined for UNSPECIFIED */
export function toDeliveryState(status: DeliveryStatus): DeliveryState | undefined {
  const names: readonly DeliveryState[] = ['PENDING', 'DELIVERED', 'FAILED']
  return names.find((name) => DeliveryStatus[name] === status)
}
