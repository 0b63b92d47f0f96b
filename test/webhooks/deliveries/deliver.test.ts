import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import { lockWaits, tampering } from '../../support/database.ts'
import { waitUntil } from '../../support/wait-for.ts'
import { logEvents, paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

/** An endpoint at a receiver. */
async function setUp(webhooks = harness.started()) {
  const peer = await harness.receiver()
  const business = await harness.business()
  const { id, secret } = await addEndpoint(webhooks, business, `${peer.url}/hook?a=1`)
  return { webhooks, client: clientOf(webhooks), peer, business, id, secret }
}

test('an event is signed and delivered to the endpoint once', async () => {
  const { peer, business, id, secret } = await setUp()
  const event = paymentEvent(business)
  await harness.publish(event)
  const { path, headers, rawBody } = await peer.next()
  expect(path).toBe('/hook?a=1')
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'user-agent': 'Inflow-Webhooks/1',
    'webhook-id': event.id,
  })
  const verified = new Webhook(secret).verify(rawBody, headers as Record<string, string>)
  expect(verified).toMatchObject({ event: 'PAYMENT_NOTIFICATION', data: { sequence: 1 } })
  await harness.allCompleted(id)
  expect(await harness.deliveries(id)).toMatchObject([
    { state: 'DELIVERED', attempts: 1, log: [{ status: 200, error: '' }] },
  ])
  expect(peer.requests).toHaveLength(1)
})

test('an event is delivered by polling without a wake-up', async () => {
  const { peer, business } = await setUp()
  await logEvents(harness.database, [paymentEvent(business)])
  await peer.next()
})

test('a delivery shows each attempt: status, latency, error and start of the response body', async () => {
  const { client, peer, business, id } = await setUp(harness.started({ retryScheduleMs: [10, 10] }))
  const responses = [
    'close' as const,
    { status: 503, body: 'later '.repeat(1_000) },
    { status: 201, body: 'no \0 thanks' },
  ]
  peer.answer(() => responses[peer.requests.length - 1]!)
  const event = paymentEvent(business)
  await harness.publish(event)
  await harness.allCompleted(id)
  const { deliveries } = await client.listDeliveries({ eventId: event.id })
  expect(deliveries).toMatchObject([
    {
      endpointId: id,
      eventId: event.id,
      attemptCount: 3,
      failure: '',
      latestAttempt: { number: 3, statusCode: 201, responseBody: 'no  thanks', error: '' },
    },
  ])
  const { delivery, attempts } = await client.getDelivery({ deliveryId: deliveries[0]!.id })
  expect(delivery).toEqual(deliveries[0])
  expect(attempts).toMatchObject([
    { number: 1, statusCode: 0, error: 'connection closed without a response', responseBody: '' },
    { number: 2, statusCode: 503, error: 'responded with 503' },
    { number: 3, statusCode: 201, error: '' },
  ])
  expect(attempts[1]?.responseBody).toBe('later '.repeat(1_000).slice(0, 4_096))
})

test('recovering continues after a full page of which a delivery is claimed meanwhile', async () => {
  const { durablePool } = harness.database
  const webhooks = harness.idle()
  const { id } = await addEndpoint(webhooks, await harness.business(), 'http://127.0.0.1:1')
  const waiting = 5_010
  await durablePool.query(
    `insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims,
          created_at)
        select 'dlv_' || n, $1, n, 'PENDING', 1, now() + interval '1 day' + n * interval '1 ms', 0,
          now()
        from generate_series(1, $2::int) n`,
    [id, waiting],
  )
  const claim = await durablePool.connect()
  await claim.query('begin')
  await claim.query(
    "update webhook_delivery set leased_until = now() + interval '1 hour' where id = 'dlv_1'",
  )
  const recovering = clientOf(webhooks).recover({ endpointId: id, since: timestampFromMs(0) })
  await waitUntil(async () => (await lockWaits(durablePool)) === 1)
  await claim.query('commit')
  claim.release()
  expect(await recovering).toMatchObject({ recovered: BigInt(waiting - 1) })
})

test('recovering neither sends nor counts again what was attempted since it began', async () => {
  const webhooks = harness.idle()
  const { id } = await addEndpoint(webhooks, await harness.business(), 'http://127.0.0.1:1')
  await harness.database.durablePool.query(
    `insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims,
          created_at, started_at)
        select 'dlv_' || state, $1, n, 'PENDING', 1, now() + interval '1 day', 0, now(), now() + since
        from (values (6001, 'before', interval '-1 minute'), (6002, 'meanwhile', interval '1 minute'))
          as v(n, state, since)`,
    [id],
  )
  const since = timestampFromMs(0)
  expect(await clientOf(webhooks).recover({ endpointId: id, since })).toMatchObject({
    recovered: 1n,
  })
})

test('what callers read and change waits for no connection of those who send', async () => {
  const { relaxedPool } = harness.database
  const webhooks = harness.idle()
  const businessId = await harness.business()
  const { id: endpointId } = await addEndpoint(webhooks, businessId, 'http://127.0.0.1:1', {
    options: { ordered: true },
  })
  await harness.database.durablePool.query(
    `insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims,
          created_at)
        select 'dlv_held' || n, $1, 7000 + n, 'PENDING', 1, now() + interval '1 day', 0, now()
        from generate_series(1, 2) n`,
    [endpointId],
  )
  const { options } = relaxedPool
  const held = await Promise.all(Array.from({ length: options.max! }, () => relaxedPool.connect()))
  harness.closing(async () => {
    for (const each of held) each.release()
  })
  const client = clientOf(webhooks)
  expect((await client.listDeliveries({ endpointId })).deliveries).toHaveLength(2)
  const deliveryId = 'dlv_held1'
  expect((await client.getDelivery({ deliveryId })).delivery?.id).toBe(deliveryId)
  expect((await client.getEndpointStatistics({ businessId })).statistics).toHaveLength(1)
  expect((await client.listEndpoints({ businessId })).endpoints).toHaveLength(1)
  await client.skipDelivery({ deliveryId })
  // The delivery has no event, so it cannot be sent again.
  await expect(client.redeliver({ deliveryId })).rejects.toThrow(/has expired/)
  const since = timestampFromMs(0)
  expect((await client.recover({ endpointId, since })).recovered).toBe(1n)
  await addEndpoint(webhooks, businessId, 'http://127.0.0.1:2')
})

test('an event whose content was deleted before its place in the log is not sent again', async () => {
  const { durablePool } = harness.database
  const webhooks = harness.started()
  const peer = await harness.receiver()
  const business = await harness.business()
  const { id } = await addEndpoint(webhooks, business, peer.url)
  await harness.publish(paymentEvent(business))
  await harness.allCompleted(id)
  await tampering(durablePool, async (client) => {
    await client.query('delete from outbox where business_id = $1', [business])
  })
  const [delivery] = await harness.deliveries(id)
  const again = clientOf(webhooks).redeliver({ deliveryId: delivery!.id })
  await expect(again).rejects.toThrow(/has expired/)
})
