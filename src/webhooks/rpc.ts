import { durationMs } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import type { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { actorOf, restrictionOf } from '../auth/caller.ts'
import type { BankNames } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { assert } from '../core/errors.ts'
import { fromTimestamp } from '../protobuf/timestamp.ts'
import { listEventKinds } from './catalogue/list-event-kinds.ts'
import { toRequestedOptions } from './connections/message.ts'
import { getDelivery, listDeliveries } from './deliveries/list-deliveries.ts'
import { recover, redeliver } from './deliveries/redeliver.ts'
import { sendTestEvent } from './deliveries/send-test-event.ts'
import { createEndpoint } from './endpoints/create-endpoint.ts'
import { deleteEndpoint } from './endpoints/delete-endpoint.ts'
import type { EndpointContext } from './endpoints/endpoint-context.ts'
import { listEndpoints } from './endpoints/list-endpoints.ts'
import { rotateSecret, switchSecret } from './endpoints/rotate-secret.ts'
import { updateEndpoint } from './endpoints/update-endpoint.ts'
import { getEndpointStatistics } from './lists/endpoint-statistics.ts'
import {
  toDeliveryFilter,
  toEndpointFilter,
  toRequestMessage,
  toStatisticsMessage,
} from './lists/message.ts'
import {
  toAttemptMessage,
  toDeliveryMessage,
  toEndpointMessage,
  toFormatChange,
  toRequestFormat,
} from './message.ts'
import { skipDelivery } from './ordered/skip-delivery.ts'
import { toCandidate, toProgressMessage } from './rehearsal/message.ts'
import type { Rehearse } from './rehearsal/rehearse.ts'
import { createShowRequest } from './sender/shown-request.ts'

export function createWebhookRpc(
  context: EndpointContext,
  timeText: TimeText,
  bankNames: BankNames,
  rehearse: Rehearse,
): ServiceImpl<typeof WebhookService> {
  const { pool } = context
  const kinds = listEventKinds(timeText, bankNames)
  const showRequest = createShowRequest(context, timeText, bankNames)
  return {
    async createEndpoint(request, call) {
      const format = toRequestFormat(request)
      const requested = { ...request, ...toRequestedOptions(request.options), format }
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
      const { rows, nextPageToken } = await listDeliveries(pool, filter)
      return { deliveries: rows.map(toDeliveryMessage), nextPageToken }
    },
    async getDelivery({ deliveryId }) {
      const { delivery, attempts, previousSequence, businessId, live } = await getDelivery(
        pool,
        deliveryId,
      )
      const request = await showRequest({ ...delivery, previousSequence })
      return {
        delivery: toDeliveryMessage(delivery),
        attempts: attempts.map(toAttemptMessage),
        ...(request && { request: toRequestMessage(request) }),
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
