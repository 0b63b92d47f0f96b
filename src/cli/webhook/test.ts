import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from '@connectrpc/connect'
import { type Delivery, DeliverySchema } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { EXIT, Failure } from '../failure.ts'
import { fields } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { DELIVERY, outcomeOf } from './deliveries.ts'

/** Longer than the timeout of the first attempt. */
const WAIT_MS = 20_000
const POLL_MS = 200

/** `inflow webhook test` */
export const testEndpoint = serviceAction<object>(async (service, options, endpointId) => {
  const client = service.client(WebhookService)
  const { eventId } = await client.sendTestEvent({ endpointId })
  const delivery = await firstAttempt(client, endpointId, eventId)
  if (delivery === undefined) {
    throw new Failure(EXIT.refused, `the test event ${eventId} has not been attempted yet`, [
      `check its delivery: inflow webhook deliveries --event ${eventId}`,
    ])
  }
  printResponse(options, DeliverySchema, delivery, () => fields(delivery, DELIVERY))
  if (delivery.latestAttempt?.error) {
    throw new Failure(EXIT.refused, `not acknowledged: ${outcomeOf(delivery.latestAttempt)}`)
  }
})

/** Waits for the first attempt of the event's delivery. @returns undefined after a timeout */
async function firstAttempt(
  client: Client<typeof WebhookService>,
  endpointId: string,
  eventId: string,
): Promise<Delivery | undefined> {
  const untilMs = performance.now() + WAIT_MS
  while (performance.now() < untilMs) {
    const { deliveries } = await client.listDeliveries({ endpointId, eventId })
    const [delivery] = deliveries
    if (delivery?.latestAttempt) return delivery
    await delay(POLL_MS)
  }
  return undefined
}
