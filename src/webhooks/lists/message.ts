import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  DeliveryStatus,
  HeaderOmission,
  type WebhookRequest,
} from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import {
  EndpointStatus,
  type EndpointStatistics as StatisticsMessage,
} from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import type {
  ListDeliveriesRequest,
  ListEndpointsRequest,
} from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { fromTimestamp } from '../../protobuf/timestamp.ts'
import type { DeliveryState } from '../deliveries/delivery.ts'
import type { DeliveryFilter } from '../deliveries/read-deliveries.ts'
import type { EndpointFilter } from '../endpoints/list-endpoints.ts'
import { toDeliveryState } from '../message.ts'
import type { ShownRequest } from '../sender/shown-request.ts'
import type { EndpointStatistics } from './endpoint-statistics.ts'

/** @param allowed the businesses that the caller may see; undefined: all */
export function toEndpointFilter(
  { businessId, live, status, failing }: ListEndpointsRequest,
  allowed: ReadonlySet<string> | undefined,
): EndpointFilter {
  return {
    businessIds: businessId === '' ? allowed && [...allowed] : [businessId],
    live,
    enabled: status === EndpointStatus.UNSPECIFIED ? undefined : status === EndpointStatus.ENABLED,
    failing,
  }
}

export function toDeliveryFilter(request: ListDeliveriesRequest): DeliveryFilter {
  const { status, statuses, from, to } = request
  return {
    endpointId: request.endpointId || undefined,
    eventId: request.eventId || undefined,
    businessId: request.businessId || undefined,
    live: request.live,
    states: toDeliveryStates(status === DeliveryStatus.UNSPECIFIED ? statuses : [status]),
    fromMs: from && fromTimestamp(from),
    toMs: to && fromTimestamp(to),
  }
}

function toDeliveryStates(
  statuses: readonly DeliveryStatus[],
): readonly DeliveryState[] | undefined {
  if (statuses.length === 0) return undefined
  return statuses.map(toDeliveryState).filter((state) => state !== undefined)
}

export function toRequestMessage({ method, url, headers, body }: ShownRequest): WebhookRequest {
  return {
    $typeName: 'inflow.webhook.v1.WebhookRequest',
    ...{ method, url, body },
    headers: headers.map(({ name, value, omission }) => ({
      $typeName: 'inflow.webhook.v1.WebhookHeader',
      ...{ name, value, omission: OMISSIONS[omission ?? 'none'] },
    })),
  }
}

const OMISSIONS = {
  none: HeaderOmission.UNSPECIFIED,
  secret: HeaderOmission.SECRET,
  'by attempt': HeaderOmission.BY_ATTEMPT,
} as const

export function toStatisticsMessage(statistics: EndpointStatistics): StatisticsMessage {
  const { oldestPendingMs, latencyP50Ms, latencyP95Ms } = statistics
  return {
    $typeName: 'inflow.webhook.v1.EndpointStatistics',
    endpointId: statistics.endpointId,
    from: timestampFromMs(statistics.fromMs),
    deliveryCount: statistics.deliveries,
    attemptCount: BigInt(statistics.attempts),
    deliveredCount: statistics.delivered,
    failedCount: statistics.failed,
    pendingCount: statistics.pending,
    ...(oldestPendingMs !== undefined && { oldestPendingAt: timestampFromMs(oldestPendingMs) }),
    ...{ latencyP50Ms, latencyP95Ms },
    hours: statistics.hours.map((hour) => ({
      $typeName: 'inflow.webhook.v1.EndpointStatisticsHour',
      from: timestampFromMs(hour.fromMs),
      deliveredCount: hour.delivered,
      failedCount: hour.failed,
      latencyP50Ms: hour.latencyP50Ms,
      latencyP95Ms: hour.latencyP95Ms,
    })),
  }
}
