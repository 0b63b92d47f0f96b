import { durationMs, timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import { DeliveryStatus, HeaderOmission } from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import {
  EndpointStatus,
  type EndpointStatistics as StatisticsMessage,
} from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import type {
  ListDeliveriesRequest,
  ListEndpointsRequest,
  WebhookService,
} from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { actorOf, restrictionOf } from '../auth/caller.ts'
import type { BankNames } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { assert } from '../core/errors.ts'
import { enumNames, fromTimestamp, isLive, toOptionalTimestamp } from '../protobuf/values.ts'
import { toRequestedOptions } from './connections/message.ts'
import { type DeliveryFilter, getDelivery, listDeliveries } from './deliveries/read-deliveries.ts'
import { recover, redeliver, sendTestEvent, skipDelivery } from './deliveries/redeliver.ts'
import type { EndpointContext } from './endpoints/endpoint.ts'
import { type EndpointStatistics, getEndpointStatistics } from './endpoints/endpoint-statistics.ts'
import { type EndpointFilter, listEndpoints } from './endpoints/list-endpoints.ts'
import { rotateSecret, switchSecret } from './endpoints/rotate-secret.ts'
import { createEndpoint, deleteEndpoint, updateEndpoint } from './endpoints/update-endpoint.ts'
import { listEventKinds } from './list-event-kinds.ts'
import {
  toAttemptMessage,
  toDeliveryMessage,
  toEndpointMessage,
  toFormatChange,
  toRequestFormat,
} from './message.ts'
import { toCandidate, toProgressMessage } from './rehearsal-message.ts'
import type { Rehearse } from './rehearse.ts'
import { createShowRequest, type ShownHeader } from './sender/shown-request.ts'

export function createWebhookRpc(
  context: EndpointContext,
  timeText: TimeText,
  bankNames: BankNames,
  rehearse: Rehearse,
): ServiceImpl<typeof WebhookService> {
  const { durablePool } = context.database
  const kinds = listEventKinds(timeText, bankNames)
  const showRequest = createShowRequest(context, timeText, bankNames)
  return {
    async createEndpoint(request, call) {
      const format = toRequestFormat(request)
      const live = isLive(request)
      const requested = { ...request, ...toRequestedOptions(request.options), format, live }
      const created = await createEndpoint(context, requested, actorOf(call))
      return { endpoint: toEndpointMessage(created), secret: created.secret }
    },
    async updateEndpoint(request, call) {
      const format = toFormatChange(request)
      const change = { ...request, ...toRequestedOptions(request.options), format }
      const updated = await updateEndpoint(context, change, actorOf(call))
      return { endpoint: toEndpointMessage(updated) }
    },
    async listEndpoints(request, { values }) {
      const filter = toEndpointFilter(request, restrictionOf(values))
      const { pageSize, pageToken } = request
      const page = await listEndpoints(context, { ...filter, pageSize, pageToken })
      return { endpoints: page.rows.map(toEndpointMessage), nextPageToken: page.nextPageToken }
    },
    async getEndpointStatistics({ endpointIds, businessId }, { values }) {
      const request = { endpointIds, businessId, allowed: restrictionOf(values) }
      const statistics = await getEndpointStatistics(context, request)
      return { statistics: statistics.map(toStatisticsMessage) }
    },
    async deleteEndpoint({ endpointId }, call) {
      await deleteEndpoint(context, endpointId, actorOf(call))
      return {}
    },
    async rotateSecret({ endpointId, overlap, textSecret }, call) {
      const rotation = { endpointId, overlapMs: overlap && durationMs(overlap), textSecret }
      const rotated = await rotateSecret(context, rotation, actorOf(call))
      return { endpoint: toEndpointMessage(rotated), secret: rotated.secret }
    },
    async switchSecret({ endpointId }, call) {
      const switched = await switchSecret(context, endpointId, actorOf(call))
      return { endpoint: toEndpointMessage(switched) }
    },
    async sendTestEvent({ endpointId }, call) {
      return { eventId: await sendTestEvent(context, endpointId, actorOf(call)) }
    },
    async *rehearse({ endpointId, businessId, candidate }, call) {
      const target = candidate ? { candidate: toCandidate(businessId, candidate) } : { endpointId }
      for await (const progress of rehearse(target, call.signal, actorOf(call))) {
        yield toProgressMessage(progress)
      }
    },
    async listDeliveries(request) {
      const { pageSize, pageToken } = request
      const filter = { ...toDeliveryFilter(request), pageSize, pageToken }
      const { rows, nextPageToken } = await listDeliveries(durablePool, filter)
      return { deliveries: rows.map(toDeliveryMessage), nextPageToken }
    },
    async getDelivery({ deliveryId }) {
      const { delivery, attempts, previousSequence, businessId, live } = await getDelivery(
        durablePool,
        deliveryId,
      )
      const request = await showRequest({ ...delivery, previousSequence })
      return {
        delivery: toDeliveryMessage(delivery),
        attempts: attempts.map(toAttemptMessage),
        ...(request && { request: { ...request, headers: request.headers.map(toHeader) } }),
        businessId,
        live,
      }
    },
    async redeliver({ deliveryId }, call) {
      const delivery = await redeliver(context, deliveryId, actorOf(call))
      return { delivery: toDeliveryMessage(delivery) }
    },
    async skipDelivery({ deliveryId }, call) {
      const delivery = await skipDelivery(context, deliveryId, actorOf(call))
      return { delivery: toDeliveryMessage(delivery) }
    },
    async recover({ endpointId, since }, call) {
      assert(since, 'validation requires since')
      const { signal } = call
      const sinceMs = fromTimestamp(since)
      const recovered = await recover(context, endpointId, sinceMs, signal, actorOf(call))
      return { recovered: BigInt(recovered) }
    },
    listEventKinds: () => ({ kinds }),
  }
}

/** @param allowed the businesses that the caller may see; undefined: all */
function toEndpointFilter(
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

function toDeliveryFilter(request: ListDeliveriesRequest): DeliveryFilter {
  const { status, statuses, from, to } = request
  return {
    endpointId: request.endpointId || undefined,
    eventId: request.eventId || undefined,
    businessId: request.businessId || undefined,
    live: request.live,
    states: enumNames(DeliveryStatus, status === DeliveryStatus.UNSPECIFIED ? statuses : [status]),
    fromMs: from && fromTimestamp(from),
    toMs: to && fromTimestamp(to),
  }
}

const toHeader = (header: ShownHeader) => ({
  ...header,
  omission: HeaderOmission[header.omission],
})

function toStatisticsMessage(statistics: EndpointStatistics): StatisticsMessage {
  const { fromMs, oldestPendingMs, hours, failures, ...counts } = statistics
  return {
    $typeName: 'inflow.webhook.v1.EndpointStatistics',
    ...counts,
    from: timestampFromMs(fromMs),
    oldestPendingAt: toOptionalTimestamp(oldestPendingMs),
    hours: hours.map(({ fromMs: hourMs, ...outcomes }) => ({
      $typeName: 'inflow.webhook.v1.EndpointStatisticsHour',
      ...outcomes,
      from: timestampFromMs(hourMs),
    })),
    failures: failures.map(({ lastMs, ...failure }) => ({
      $typeName: 'inflow.webhook.v1.EndpointFailure',
      ...failure,
      lastAt: timestampFromMs(lastMs),
    })),
  }
}
