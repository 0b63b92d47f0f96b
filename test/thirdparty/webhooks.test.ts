import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { keyIdOf } from '../../src/businesses/secret-key.ts'
import { verifyWebhook } from '../../src/client/verify-webhook.ts'
import { DEAF_URL } from '../protocols/matrix/scene.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { audited, data, failure, openByKey, type ScopedBusiness, scopedBusiness } from './scene.ts'

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

  test.each([
    [{}, 'url', 'is required'],
    [{ url: 'https://10.0.0.1/' }, 'url', expect.any(String)],
    [{ url: DEAF_URL, kinds: 'PAYMENT_NOTIFICATION' }, 'kinds', 'must be a list of strings'],
    [{ url: DEAF_URL, kinds: ['lower case'] }, 'kinds[0]', expect.any(String)],
    [{ url: DEAF_URL, concurrency: 51 }, 'concurrency', expect.any(String)],
    [{ url: DEAF_URL, description: 'x'.repeat(201) }, 'description', expect.any(String)],
  ])('refuses %j', async (request, field, message) => {
    const { status, body } = await service.post('createWebhook/', business.live, request)
    expect([status, body.errors]).toEqual([422, [{ field, message }]])
  })
})

describe('updateWebhook/', () => {
  test('changes what is given and keeps the rest', async () => {
    const { secret: _, ...made } = await create(business.live, { url: freshUrl(), concurrency: 3 })
    const endpointId = made.endpoint_id
    const update = (change: object) =>
      data(service, business.live, 'updateWebhook', { endpointId, ...change })
    const kinds = ['PAYMENT_NOTIFICATION']
    expect(await update({ kinds, description: 'money' })).toEqual({
      ...made,
      ...{ kinds, description: 'money' },
    })
    const disabled = await update({ enabled: false })
    expect(disabled).toMatchObject({ status: 'DISABLED', disabled_reason: 'REQUESTED', kinds })
    expect(disabled.disabled_at).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    expect(await update({ enabled: true, allKinds: true })).toEqual({
      ...made,
      description: 'money',
    })
    const [entry] = await audited(service, business.id, 1)
    expect(entry).toMatchObject({ action: 'endpoint.update', targetId: endpointId })
    const { status, body } = await service.post('updateWebhook/', business.live, {
      ...{ endpointId, enabled: 'yes', concurrency: 0 },
    })
    expect(status).toBe(422)
    expect(body.errors.map((each: { field: string }) => each.field)).toEqual([
      'concurrency',
      'enabled',
    ])
  })
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
          latest_attempt: { number: 1, status_code: 0, error: expect.stringMatching(/./) },
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
  const OPTIONS = {
    headers: { headers: [{ name: 'x-gateway-key', value: 's3cret' }] },
    authentication: { basic: { username: 'inflow', password: 'hunter2' } },
    rateLimit: 20,
    ordered: true,
  }

  test('are sent with every request, and shown without their secrets', async () => {
    const made = await create(business.test, { url: `${receiver.url}?options`, options: OPTIONS })
    const shown = {
      header_names: ['x-gateway-key'],
      basic_username: 'inflow',
      rate_limit: 20,
      ordered: true,
    }
    expect(made.options).toMatchObject(shown)
    const endpointId = made.endpoint_id
    await data(service, business.test, 'testWebhook', { endpointId })
    const request = await waitFor(() => {
      const found = receiver.requests.find(({ path }) => path?.includes('options'))
      expect(found).toBeDefined()
      return found!
    })
    expect(request.headers).toMatchObject({
      'x-gateway-key': 's3cret',
      authorization: `Basic ${Buffer.from('inflow:hunter2').toString('base64')}`,
    })
    const listed = async () => {
      const { webhooks } = await data(service, business.test, 'listWebhooks')
      return webhooks.find((each: Record<string, string>) => each['endpoint_id'] === endpointId)
    }
    expect((await listed()).options).toMatchObject(shown)
    expect(JSON.stringify(await listed())).not.toMatch(/s3cret|hunter2/)
    expect(JSON.stringify(await audited(service, business.id, 1))).not.toMatch(/s3cret|hunter2/)

    const change = { endpointId, options: { headers: {}, authentication: {} } }
    const { options } = await data(service, business.test, 'updateWebhook', change)
    expect(options).toMatchObject({ header_names: [], rate_limit: 20, ordered: true })
    expect(options).not.toHaveProperty('basic_username')
  })

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

test('a deleted endpoint receives nothing more, and is deleted once', async () => {
  const kinds = ['ACCOUNT_CREATED']
  const { endpoint_id: endpointId } = await create(business.test, { url: freshUrl(), kinds })
  const other = await create(business.test, { url: freshUrl(), kinds })
  expect(await data(service, business.test, 'deleteWebhook', { endpointId })).toEqual({
    endpoint_id: endpointId,
  })
  await openByKey(service, business.test, { reference: 'after' })
  // Deliveries are made for all endpoints at once.
  await waitFor(async () => {
    const request = { endpointId: other.endpoint_id }
    const { deliveries } = await data(service, business.test, 'listDeliveries', request)
    expect(deliveries).toHaveLength(1)
  })
  const { rows } = await service.database.durablePool.query(
    'select from webhook_delivery where endpoint_id = $1',
    [endpointId],
  )
  expect(rows).toEqual([])
})
