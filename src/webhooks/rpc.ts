import type { ServiceImpl } from '@connectrpc/connect'
import type { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { createEndpoint } from './create-endpoint.ts'
import { deleteEndpoint } from './delete-endpoint.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { listEndpoints } from './list-endpoints.ts'
import { toEndpointMessage } from './message.ts'

export function createWebhookRpc(context: EndpointContext): ServiceImpl<typeof WebhookService> {
  return {
    async createEndpoint(request) {
      const { endpoint, secret } = await createEndpoint(context, request)
      return { endpoint: toEndpointMessage(endpoint), secret }
    },
    async listEndpoints({ businessId }) {
      const endpoints = await listEndpoints(context, businessId)
      return { endpoints: endpoints.map(toEndpointMessage) }
    },
    async deleteEndpoint({ endpointId }) {
      await deleteEndpoint(context, endpointId)
      return {}
    },
  }
}
