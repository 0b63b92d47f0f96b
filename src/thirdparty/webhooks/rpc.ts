import type { ServiceImpl } from '@connectrpc/connect'
import type { ThirdPartyService } from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { actorOf, callingBusiness } from '../../auth/caller.ts'
import type { TimeText } from '../../core/clock.ts'
import { toRequestedOptions } from '../../webhooks/connections/message.ts'
import type { DeliveryState } from '../../webhooks/deliveries/delivery.ts'
import { listDeliveries } from '../../webhooks/deliveries/list-deliveries.ts'
import { redeliver } from '../../webhooks/deliveries/redeliver.ts'
import { sendTestEvent } from '../../webhooks/deliveries/send-test-event.ts'
import { skipDelivery } from '../../webhooks/deliveries/skip-delivery.ts'
import { createEndpoint } from '../../webhooks/endpoints/create-endpoint.ts'
import { deleteEndpoint } from '../../webhooks/endpoints/delete-endpoint.ts'
import type { EndpointContext } from '../../webhooks/endpoints/endpoint-context.ts'
import { listEndpoints } from '../../webhooks/endpoints/list-endpoints.ts'
import { updateEndpoint } from '../../webhooks/endpoints/update-endpoint.ts'
import { toPageToken } from '../message.ts'
import { toDelivery, toRequestFormat, toWebhook } from './message.ts'

export interface WebhookDependencies {
  readonly webhooks: EndpointContext
  readonly timeText: TimeText
}

type WebhookMethods = Pick<
  ServiceImpl<typeof ThirdPartyService>,
  | 'createWebhook'
  | 'listWebhooks'
  | 'updateWebhook'
  | 'deleteWebhook'
  | 'testWebhook'
  | 'listDeliveries'
  | 'redeliver'
  | 'skipDelivery'
>

/**
 * What a business does with its webhook endpoints. Requests name resources of its own mode: the
 * policies of the methods replace the ids of others by one that no resource has.
 */
export function createWebhookMethods({ webhooks, timeText }: WebhookDependencies): WebhookMethods {
  return {
    async createWebhook(request, context) {
      const { businessId, live } = callingBusiness(context)
      const options = toRequestedOptions(request.options)
      const format = toRequestFormat(request)
      const requested = { ...request, ...options, format, businessId, test: !live, uniqueUrl: true }
      const created = await createEndpoint(webhooks, requested, actorOf(context))
      const data = toWebhook(created, timeText, created.secret)
      return { status: true, message: 'Webhook created', data }
    },
    async listWebhooks(_request, context) {
      const { businessId, live } = callingBusiness(context)
      const list = { businessIds: [businessId], live, pageSize: 0, pageToken: '' }
      const { rows } = await listEndpoints(webhooks, list)
      const data = { webhooks: rows.map((each) => toWebhook(each, timeText)) }
      return { status: true, message: 'Webhooks retrieved', data }
    },
    async updateWebhook(request, context) {
      const change = { ...request, ...toRequestedOptions(request.options) }
      const updated = await updateEndpoint(webhooks, change, actorOf(context))
      return { status: true, message: 'Webhook updated', data: toWebhook(updated, timeText) }
    },
    async deleteWebhook({ endpointId }, context) {
      await deleteEndpoint(webhooks, endpointId, actorOf(context))
      return { status: true, message: 'Webhook deleted', data: { endpointId } }
    },
    async testWebhook({ endpointId }, context) {
      const eventId = await sendTestEvent(webhooks, endpointId, actorOf(context))
      return { status: true, message: 'Test event sent', data: { eventId } }
    },
    async listDeliveries({ endpointId, eventId, status, pageSize, pageToken }) {
      const { rows, nextPageToken } = await listDeliveries(webhooks.pool, {
        endpointId: endpointId || undefined,
        eventId: eventId || undefined,
        states: status === '' ? undefined : [status as DeliveryState],
        ...{ pageSize, pageToken },
      })
      const deliveries = rows.map((delivery) => toDelivery(delivery, timeText))
      return {
        status: true,
        message: 'Deliveries retrieved',
        data: { deliveries, ...toPageToken(nextPageToken) },
      }
    },
    async redeliver({ deliveryId }, context) {
      const delivery = await redeliver(webhooks, deliveryId, actorOf(context))
      return { status: true, message: 'Delivery sent again', data: toDelivery(delivery, timeText) }
    },
    async skipDelivery({ deliveryId }, context) {
      const delivery = await skipDelivery(webhooks, deliveryId, actorOf(context))
      return { status: true, message: 'Delivery skipped', data: toDelivery(delivery, timeText) }
    },
  }
}
