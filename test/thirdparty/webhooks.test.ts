import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { keyIdOf } from '../../src/businesses/secret-key.ts'
import { verifyWebhook } from '../../src/client/verify-webhook.ts'
import { DEAF_URL } from '../protocols/matrix/scene.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { audited, data, failure, type ScopedBusiness, scopedBusiness } from './scene.ts'

const service = useSharedService()
let business: ScopedBusiness
let stranger: ScopedBusiness
let receiver: Receiver

beforeAll(async () => {
  business = await scopedBusiness(service)
  stranger = await scopedBusiness(service)
  receiver = await startReceiver()
})

afterAll(() => receiver?.close())

const create = (key: string, request: object) => data(service, key, 'createWebhook', { ...request })
let urls = 0
const freshUrl = () => `${DEAF_URL}?${++urls}`

describe('createWebhook/', () => {
  test('creates an endpoint that receives signed events of the mode of the key', async () => {
    const webhook = await create(business.test, { url: receiver.url, description: 'orders' })
    expect(webhook).toMatchObject({
      url: receiver.url,
      kinds: [],
      description: 'orders',
      concurrency: 10,
      status: 'ENABLED',
      secret: expect.stringMatching(/^whsec_/),
    })
    const [entry] = await audited(service, business.id, 1)
    expect(entry).toMatchObject({
      action: 'endpoint.create',
      targetId: webhook.endpoint_id,
      by: `secret_key ${keyIdOf(business.test)}`,
    })
    expect(JSON.stringify(entry)).not.toContain(webhook.secret)
    const { event_id: eventId } = await data(service, business.test, 'testWebhook', {
      endpointId: webhook.endpoint_id,
    })
    await waitFor(() => expect(receiver.requests.length).toBeGreaterThan(0))
    const [request] = receiver.requests
    expect(verifyWebhook(request!.rawBody, request!.headers, webhook.secret)).toMatchObject({
      ok: true,
      event: { event: 'ENDPOINT_TEST', data: { live: false, event_id: eventId } },
    })
    const { webhooks } = await data(service, business.test, 'listWebhooks')
    expect(webhooks).toEqual([{ ...webhook, secret: undefined }])
    expect((await data(service, business.live, 'listWebhooks')).webhooks).toEqual([])
  })

  test('creates one of the profile WIAXY, for payments unless it names other kinds, whose text signs', async () => {
    const wiaxy = { profile: 'WIAXY', textSecret: 'sk-the-text-of-the-receiver' }
    const others = { url: freshUrl(), kinds: ['PAYOUT_PAID', 'PAYOUT_RETURNED'] }
    expect(await create(business.test, { ...others, ...wiaxy })).toMatchObject(others)
    const peer = await startReceiver()
    onTestFinished(peer.close)
    const webhook = await create(business.test, { url: peer.url, ...wiaxy })
    expect(webhook).toMatchObject({ profile: 'WIAXY', kinds: ['PAYMENT_NOTIFICATION'] })
    expect(webhook).not.toHaveProperty('secret')
    await data(service, business.test, 'testWebhook', { endpointId: webhook.endpoint_id })
    const { headers, rawBody } = await peer.next()
    const signed = `${headers['x-wiaxy-timestamp']}.${rawBody}`
    const signature = createHmac('sha256', wiaxy.textSecret).update(signed).digest('hex')
    expect(headers['x-wiaxy-signature-256']).toBe(signature)
  })

  test('refuses a second endpoint with the URL, so that a repeat does not double every event', async () => {
    const url = freshUrl()
    const tries = await Promise.all(
      Array.from({ length: 6 }, () => service.post('createWebhook/', business.live, { url })),
    )
    const codes = tries.map(({ status, body }) => `${status} ${body.code ?? ''}`).sort()
    expect(codes).toEqual(['200 ', ...Array.from({ length: 5 }, () => '409 duplicate_webhook')])
    const { webhooks } = await data(service, business.live, 'listWebhooks')
    const [made] = webhooks.filter((each: { url: string }) => each.url === url)
    const refused = tries.find(({ status }) => status === 409)!
    expect(refused.body.message).toContain(made.endpoint_id)
    // The other mode, another business, and an operator may use it.
    await create(business.test, { url })
    await create(stranger.live, { url })
    const { endpoint } = await service
      .client(WebhookService)
      .createEndpoint({ businessId: business.id, url })
    // Once all that have it are deleted, it is free again.
    for (const endpointId of [made.endpoint_id, endpoint!.id]) {
      await data(service, business.live, 'deleteWebhook', { endpointId })
    }
    await create(business.live, { url })
  })
})

test('updateWebhook/ gives no two endpoints one URL, also if both are changed at once', async () => {
  const [taken, wanted] = [freshUrl(), freshUrl()]
  await create(business.live, { url: taken })
  const made = [
    await create(business.live, { url: freshUrl() }),
    await create(business.live, { url: freshUrl() }),
  ]
  const update = (index: number, url: string) =>
    service.post('updateWebhook/', business.live, { endpointId: made[index].endpoint_id, url })
  expect(await update(0, taken)).toMatchObject({
    status: 409,
    body: { code: 'duplicate_webhook' },
  })
  const changed = await Promise.all([update(0, wanted), update(1, wanted)])
  expect(changed.map(({ status }) => status).sort()).toEqual([200, 409])
  // A repeat of its own URL changes nothing.
  const kept = changed.findIndex(({ status }) => status === 200)
  expect((await update(kept, wanted)).status).toBe(200)
})

describe('deliveries', () => {
  test('are listed by endpoint and by event, and sent again', async () => {
    const url = freshUrl()
    const { endpoint_id: endpointId } = await create(business.test, { url })
    const { event_id: eventId } = await data(service, business.test, 'testWebhook', { endpointId })
    const delivery = await waitFor(async () => {
      const { deliveries } = await data(service, business.test, 'listDeliveries', { endpointId })
      expect(deliveries).toMatchObject([
        {
          endpoint_id: endpointId,
          event_id: eventId,
          event: 'ENDPOINT_TEST',
          status: 'PENDING',
          latest_attempt: {
            number: expect.any(Number),
            status_code: 0,
            error: expect.stringMatching(/./),
          },
        },
      ])
      return deliveries[0]
    })
    const { deliveries } = await data(service, business.test, 'listDeliveries', { eventId })
    expect(deliveries.map((each: { delivery_id: string }) => each.delivery_id)).toEqual([
      delivery.delivery_id,
    ])
    const status = 'DELIVERED'
    expect(await data(service, business.test, 'listDeliveries', { endpointId, status })).toEqual({
      deliveries: [],
    })
    // Its own retry does not come first.
    await service.database.durablePool.query(
      "update webhook_delivery set due_at = now() + interval '1 hour' where endpoint_id = $1",
      [endpointId],
    )
    await data(service, business.test, 'updateWebhook', {
      endpointId,
      url: `${receiver.url}?again`,
    })
    const again = { deliveryId: delivery.delivery_id }
    expect(await data(service, business.test, 'redeliver', again)).toMatchObject({
      delivery_id: delivery.delivery_id,
    })
    await waitFor(async () => {
      const list = await data(service, business.test, 'listDeliveries', { endpointId, status })
      expect(list.deliveries).toHaveLength(1)
    })
    const entries = await audited(service, business.id, 1)
    expect(entries).toMatchObject([
      { action: 'delivery.redeliver', targetId: delivery.delivery_id },
    ])
  })
})

describe('the options of an endpoint', () => {
  test('in order, the delivery that blocks is shown, and can be skipped', async () => {
    const url = DEAF_URL.concat('?ordered')
    const { endpoint_id: endpointId } = await create(business.live, {
      url,
      options: { ordered: true },
    })
    await data(service, business.live, 'testWebhook', { endpointId })
    await data(service, business.live, 'testWebhook', { endpointId })
    const blockedBy = async () => {
      const { webhooks } = await data(service, business.live, 'listWebhooks')
      const found = webhooks.find(
        (each: Record<string, string>) => each['endpoint_id'] === endpointId,
      )
      return found.options.blocked_by
    }
    const first = await waitFor(async () => {
      const block = await blockedBy()
      expect(block).toMatchObject({ waiting_count: 1 })
      return block
    })
    const skip = { deliveryId: first.delivery_id }
    expect(await data(service, business.live, 'skipDelivery', skip)).toMatchObject({
      delivery_id: first.delivery_id,
      status: 'FAILED',
    })
    expect(await failure(service, business.live, 'skipDelivery', skip)).toEqual([
      409,
      'delivery_completed',
    ])
    expect(await audited(service, business.id, 1)).toMatchObject([
      { action: 'delivery.skip', targetId: first.delivery_id },
    ])
    await waitFor(async () => expect((await blockedBy()).delivery_id).not.toBe(first.delivery_id))
  })
})
