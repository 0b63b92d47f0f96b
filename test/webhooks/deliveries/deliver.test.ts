import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import { ENTITIES } from '../../../src/app/entities.ts'
import { openDatabase } from '../../../src/postgres/orm.ts'
import { logEvents, openWebhooks, paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, until, useWebhooks } from '../harness.ts'

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

test('events are dispatched only once by two instances', async () => {
  const { peer, business, id } = await setUp()
  harness.started()
  const events = Array.from({ length: 300 }, () => paymentEvent(business))
  for (let at = 0; at < events.length; at += 30) {
    await harness.publish(...events.slice(at, at + 30))
  }
  await harness.allCompleted(id)
  const ids = peer.requests.map((request) => request.headers['webhook-id'])
  expect(ids.sort()).toEqual(events.map((event) => event.id).sort())
})

test('an endpoint that hangs does not delay another, even if a hundred hang', async () => {
  const webhooks = harness.started({ requestTimeoutMs: 60_000 })
  const hanging = await harness.receiver()
  hanging.answer('hang')
  const slow = await Promise.all(Array.from({ length: 100 }, () => harness.business()))
  for (const business of slow) await addEndpoint(webhooks, business, hanging.url)
  const { peer, business } = await setUp(webhooks)
  await harness.publish(...slow.flatMap((each) => [1, 2, 3, 4].map(() => paymentEvent(each))))
  await hanging.waitFor((requests) => requests.length >= 100)
  await harness.publish(...Array.from({ length: 50 }, () => paymentEvent(business)))
  // Their capacity is freed as soon as they count as slow, and not only after their time-out.
  await peer.waitFor((requests) => requests.length === 50, 50_000)
})

test('a worker continues after the database dropped its connections', async () => {
  const own = await openDatabase(harness.url, ENTITIES)
  harness.closing(own.close)
  const { peer, business } = await setUp(harness.started({}, own))
  const { durablePool } = harness.database
  for (let round = 1; round <= 3; round++) {
    await durablePool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()`,
    )
    await until(() =>
      harness.publish(paymentEvent(business)).then(
        () => true,
        () => false,
      ),
    )
    await peer.waitFor((requests) => requests.length >= round)
  }
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
      ...{ endpointId: id, eventId: event.id, attemptCount: 3, failure: '' },
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
  const webhooks = openWebhooks(harness.database)
  harness.closing(() => webhooks.stop())
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
  const blocked = `select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`
  await until(async () => (await durablePool.query(blocked)).rowCount === 1)
  await claim.query('commit')
  claim.release()
  expect(await recovering).toMatchObject({ recovered: BigInt(waiting - 1) })
})

test('recovering neither sends nor counts again what was attempted since it began', async () => {
  const webhooks = openWebhooks(harness.database)
  harness.closing(() => webhooks.stop())
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
