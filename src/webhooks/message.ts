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
import { enumName, toOptionalTimestamp } from '../protobuf/values.ts'
import type { Connection } from './connections/connection.ts'
import { toConfiguredOptions } from './connections/message.ts'
import type { OrderBlock, StoredAttempt, StoredDelivery } from './deliveries/delivery.ts'
import type { Endpoint, Secret } from './endpoints/endpoint.entity.ts'
import type { EndpointEventKind, RequestFormat } from './endpoints/endpoint.ts'
import type { FormatChange } from './endpoints/request-format.ts'

/** An endpoint with its active signing secrets, newest first, and its connection. */
export interface EndpointWithSecrets {
  readonly endpoint: Endpoint
  readonly secrets: readonly Secret[]
  readonly connection: Connection | undefined
  /** The delivery for which the next events of an ordered endpoint wait; only in lists. */
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
    legacySignature: enumName(LegacySignature, request.legacySignature) ?? null,
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
      legacySignature: enumName(LegacySignature, legacySignature) ?? null,
    }),
    ...(eventName !== undefined && { eventName: eventName || null }),
    ...(payerAsArray !== undefined && { payerAsArray }),
  }
}

/**
 * Encodes an event about an endpoint, without its position in the log. It contains only the origin of the URL, because
 * the event goes to other receivers, and paths and queries may contain secrets.
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
  const { latestAttempt, ...row } = delivery
  return create(DeliverySchema, {
    ...row,
    status: DeliveryStatus[row.state],
    attemptCount: row.attempts,
    createdAt: timestampFromMs(row.createdAtMs),
    dueAt: toOptionalTimestamp(row.dueAtMs),
    completedAt: toOptionalTimestamp(row.completedAtMs),
    ...(latestAttempt && { latestAttempt: toAttemptMessage(latestAttempt) }),
    ...(row.event && toPayment(row.event)),
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
    ...attempt,
    startedAt: timestampFromMs(attempt.startedAtMs),
    statusCode: attempt.status,
  })
}
