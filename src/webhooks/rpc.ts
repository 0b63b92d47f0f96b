import { durationMs, timestampMs } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import type { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { assert } from '../errors.ts'
import { createEndpoint } from './create-endpoint.ts'
import { deleteEndpoint } from './delete-endpoint.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { getDelivery, listDeliveries } from './list-deliveries.ts'
import { listEndpoints } from './list-endpoints.ts'
import {
  toAttemptMessage,
  toDeliveryMessage,
  toDeliveryState,
  toEndpointMessage,
} from './message.ts'
import { recover, redeliver } from './redeliver.ts'
import { rotateSecret } from './rotate-secret.ts'
import { sendTestEvent } from './send-test-event.ts'
import { updateEndpoint } from './update-endpoint.ts'

export function createWebhookRpc(context: EndpointContext): ServiceImpl<typeof WebhookService> {
  const { pool } = context
  return {
    async createEndpoint(request) {
      const created = await createEndpoint(context, request)
      return { endpoint: toEndpointMessage(created), secret: created.secret }
    },
    async updateEndpoint(request) {
      return { endpoint: toEndpointMessage(await updateEndpoint(context, request)) }
    },
    async listEndpoints({ businessId }) {
      const endpoints = await listEndpoints(context, businessId)
      return { endpoints: endpoints.map(toEndpointMessage) }
    },
    async deleteEndpoint({ endpointId }) {
      await deleteEndpoint(context, endpointId)
      return {}
    },
    async rotateSecret({ endpointId, overlap }) {
      const rotated = await rotateSecret(context, endpointId, overlap && durationMs(overlap))
      return { endpoint: toEndpointMessage(rotated), secret: rotated.secret }
    },
    async sendTestEvent({ endpointId }) {
      return { eventId: await sendTestEvent(context, endpointId) }
    },
    async listDeliveries(request) {
      const { rows, nextPageToken } = await listDeliveries(pool, {
        endpointId: request.endpointId || undefined,
        eventId: request.eventId || undefined,
        state: toDeliveryState(request.status),
        pageSize: request.pageSize,
        pageToken: request.pageToken,
      })
      return { deliveries: rows.map(toDeliveryMessage), nextPageToken }
    },
    async getDelivery({ deliveryId }) {
      const { delivery, attempts } = await getDelivery(pool, deliveryId)
      return { delivery: toDeliveryMessage(delivery), attempts: attempts.map(toAttemptMessage) }
    },
    async redeliver({ deliveryId }) {
      return { delivery: toDeliveryMessage(await redeliver(context, deliveryId)) }
    },
    async recover({ endpointId, since }, { signal }) {
      assert(since, 'validation requires since')
      return { recovered: BigInt(await recover(context, endpointId, timestampMs(since), signal)) }
    },
  }
}
