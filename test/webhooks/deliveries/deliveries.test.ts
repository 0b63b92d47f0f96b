import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import { describe, expect, test } from 'vitest'
import { DeliveryStatus } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { tamper } from '../../support/database.ts'
import { openWebhooks, paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, until, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

const DAY_MS = 86_400_000

/** One retry, due long after the test. */
const RETRY_LATER = [DAY_MS]

async function faultOf(call: Promise<unknown>): Promise<[Code, string]> {
  const error = await call.then(
    () => new Error('there was no fault'),
    (fault: unknown) => fault,
  )
  if (!(error instanceof ConnectError)) throw error
  return [error.code, error.rawMessage]
}

/** Waits until that many deliveries of an endpoint are in the state. */
function inState(endpointId: string, state: string, count: number) {
  return until(async () => {
    const rows = await harness.deliveries(endpointId)
    return rows.filter((row) => row.state === state).length === count ? rows : undefined
  })
}

describe('a delivery', () => {
  test('shows each attempt: status, latency, error and start of the response body', async () => {
    const webhooks = harness.started({ retryScheduleMs: [10, 10] })
    const client = clientOf(webhooks)
    const peer = await harness.receiver()
    const responses = [
      'close' as const,
      { status: 503, body: 'later '.repeat(1_000) },
      { status: 201, body: 'thanks' },
    ]
    peer.answer(() => responses[peer.requests.length - 1]!)
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    const event = paymentEvent(business)
    await harness.publish(event)
    await inState(id, 'DELIVERED', 1)

    const { deliveries } = await client.listDeliveries({ eventId: event.id })
    expect(deliveries).toHaveLength(1)
    expect(deliveries[0]).toMatchObject({
      endpointId: id,
      eventId: event.id,
      eventKind: 'PAYMENT_NOTIFICATION',
      status: DeliveryStatus.DELIVERED,
      attemptCount: 3,
      failure: '',
      latestAttempt: { number: 3, statusCode: 201, responseBody: 'thanks', error: '' },
    })
    expect(deliveries[0]?.dueAt).toBeUndefined()
    const { delivery, attempts } = await client.getDelivery({ deliveryId: deliveries[0]!.id })
    expect(delivery).toEqual(deliveries[0])
    expect(attempts).toMatchObject([
      { number: 1, statusCode: 0, error: 'connection closed without a response', responseBody: '' },
      { number: 2, statusCode: 503, error: 'responded with 503' },
      { number: 3, statusCode: 201, error: '' },
    ])
    expect(attempts[1]?.responseBody).toBe('later '.repeat(1_000).slice(0, 4_096))
    for (const attempt of attempts) expect(attempt.latencyMs).toBeGreaterThanOrEqual(0)
  })

  test('is listed by endpoint, state and page, newest event first', async () => {
    const webhooks = harness.started({ retryScheduleMs: [] })
    const client = clientOf(webhooks)
    const peer = await harness.receiver()
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    const events = Array.from({ length: 7 }, () => paymentEvent(business))
    const bad = new Set([events[2]!.id, events[5]!.id])
    peer.answer((request) => ({ status: bad.has(`${request.headers['webhook-id']}`) ? 400 : 200 }))
    await harness.publish(...events)
    await until(
      async () => (await harness.deliveries(id)).filter((row) => row.completed_at).length === 7,
    )

    const newestFirst = events.map((event) => event.id).reverse()
    const listed: string[] = []
    let pageToken = ''
    do {
      const page = await client.listDeliveries({ endpointId: id, pageSize: 3, pageToken })
      listed.push(...page.deliveries.map((delivery) => delivery.eventId))
      pageToken = page.nextPageToken
    } while (pageToken !== '')
    expect(listed).toEqual(newestFirst)
    const failed = await client.listDeliveries({ endpointId: id, status: DeliveryStatus.FAILED })
    expect(failed.deliveries.map((delivery) => delivery.eventId)).toEqual(
      newestFirst.filter((eventId) => bad.has(eventId)),
    )
    expect(failed.deliveries[0]?.failure).toBe('the last attempt failed')
    expect((await client.listDeliveries({ endpointId: 'ep_none' })).deliveries).toEqual([])
    expect(await faultOf(client.listDeliveries({ endpointId: id, pageToken: 'nonsense' }))).toEqual(
      [Code.InvalidArgument, 'Invalid request: pageToken'],
    )
    expect(await faultOf(client.getDelivery({ deliveryId: 'dlv_none' }))).toEqual([
      Code.NotFound,
      'No such delivery',
    ])
  })
})

describe('redelivering', () => {
  test('sends failed and acknowledged deliveries again, with the same id', async () => {
    const webhooks = harness.started({ retryScheduleMs: [10] })
    const client = clientOf(webhooks)
    const peer = await harness.receiver()
    peer.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await harness.publish(paymentEvent(business))
    const [row] = await inState(id, 'FAILED', 1)

    // The full schedule again: one attempt and one retry.
    const { delivery } = await client.redeliver({ deliveryId: row!.id })
    expect(delivery).toMatchObject({ status: DeliveryStatus.PENDING, attemptCount: 2, failure: '' })
    await until(async () => (await harness.deliveries(id))[0]?.attempts === 4)
    await inState(id, 'FAILED', 1)

    peer.answer({ status: 200 })
    await client.redeliver({ deliveryId: row!.id })
    await inState(id, 'DELIVERED', 1)
    await client.redeliver({ deliveryId: row!.id })
    await peer.waitFor((requests) => requests.length === 6)
    const [again] = await inState(id, 'DELIVERED', 1)
    expect(again?.log).toHaveLength(6)
    expect(new Set(peer.requests.map((request) => request.headers['webhook-id'])).size).toBe(1)
  })

  test('sends a waiting retry at once, and does not touch an attempt in progress', async () => {
    const webhooks = harness.started({ retryScheduleMs: RETRY_LATER })
    const client = clientOf(webhooks)
    const peer = await harness.receiver()
    peer.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await harness.publish(paymentEvent(business))
    const row = await until(async () => {
      const [first] = await harness.deliveries(id)
      return first?.attempts === 1 ? first : undefined
    })
    const repeated = Promise.withResolvers<void>()
    peer.answer({ status: 200, after: repeated.promise })
    await client.redeliver({ deliveryId: row.id })
    await peer.waitFor((requests) => requests.length === 2)
    await client.redeliver({ deliveryId: row.id })
    repeated.resolve()
    const [done] = await inState(id, 'DELIVERED', 1)
    expect(done?.attempts).toBe(2)
    expect(peer.requests).toHaveLength(2)
  })

  test('is rejected if the endpoint or the event is gone', async () => {
    const webhooks = harness.started({ retryScheduleMs: [] })
    const client = clientOf(webhooks)
    const peer = await harness.receiver()
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    const [expired, kept] = [paymentEvent(business), paymentEvent(business)]
    await harness.publish(expired, kept)
    const [row] = await inState(id, 'DELIVERED', 2)
    const deliveryId = row!.id

    expect(await faultOf(client.redeliver({ deliveryId: 'dlv_none' }))).toEqual([
      Code.NotFound,
      'No such delivery',
    ])
    await tamper(
      harness.database.durablePool,
      `with gone as (delete from event_log where event_id = $1 returning outbox_seq)
      delete from outbox where seq in (select outbox_seq from gone)`,
      [expired.id],
    )
    expect(await faultOf(client.redeliver({ deliveryId }))).toEqual([
      Code.FailedPrecondition,
      'The event has expired and cannot be sent again',
    ])
    const { delivery } = await client.getDelivery({ deliveryId })
    expect(delivery).toMatchObject({ eventId: '', status: DeliveryStatus.DELIVERED })

    await client.updateEndpoint({ endpointId: id, enabled: false })
    const disabled = [Code.FailedPrecondition, 'The endpoint is disabled; enable it first']
    expect(await faultOf(client.redeliver({ deliveryId }))).toEqual(disabled)
    expect(await faultOf(client.sendTestEvent({ endpointId: id }))).toEqual(disabled)
    const since = timestampFromMs(0)
    expect(await faultOf(client.recover({ endpointId: id, since }))).toEqual(disabled)

    await client.deleteEndpoint({ endpointId: id })
    const removed = [Code.NotFound, 'No such endpoint']
    expect(await faultOf(client.redeliver({ deliveryId }))).toEqual(removed)
    expect(await faultOf(client.sendTestEvent({ endpointId: id }))).toEqual(removed)
    expect(await faultOf(client.recover({ endpointId: id, since }))).toEqual(removed)
    expect(await faultOf(client.updateEndpoint({ endpointId: id }))).toEqual(removed)
    expect(await faultOf(client.rotateSecret({ endpointId: id }))).toEqual(removed)
  })

  test('fails the delivery if its event is deleted meanwhile', async () => {
    const webhooks = harness.started({ retryScheduleMs: RETRY_LATER })
    const client = clientOf(webhooks)
    const peer = await harness.receiver()
    peer.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    const event = paymentEvent(business)
    await harness.publish(event)
    const row = await until(async () => {
      const [first] = await harness.deliveries(id)
      return first?.attempts === 1 ? first : undefined
    })
    await tamper(harness.database.durablePool, 'delete from event_log where event_id = $1', [
      event.id,
    ])
    await harness.database.durablePool.query(
      'update webhook_delivery set due_at = now() where id = $1',
      [row.id],
    )
    const [failed] = await inState(id, 'FAILED', 1)
    expect(failed?.failure).toBe('the event expired')
    expect((await client.getDelivery({ deliveryId: row.id })).delivery?.attemptCount).toBe(1)
  })
})

describe('recovering', () => {
  test('sends all unacknowledged deliveries since a time, failed or waiting', async () => {
    const webhooks = harness.started({ retryScheduleMs: RETRY_LATER })
    const client = clientOf(webhooks)
    const [peer, other] = [await harness.receiver(), await harness.receiver()]
    peer.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    const { id: otherId } = await addEndpoint(webhooks, business, other.url)
    const before = paymentEvent(business)
    await harness.publish(before)
    await peer.next()
    await until(async () => (await harness.deliveries(id))[0]?.attempts === 1)
    await harness.database.durablePool.query(
      `update webhook_delivery set created_at = created_at - interval '1 hour'`,
    )
    const events = Array.from({ length: 20 }, () => paymentEvent(business))
    await harness.publish(...events)
    await until(
      async () => (await harness.deliveries(id)).filter((row) => row.attempts === 1).length === 21,
    )
    await inState(otherId, 'DELIVERED', 21)
    await harness.database.durablePool.query(
      `update webhook_delivery set state = 'FAILED', completed_at = now(), failure = 'test'
        where endpoint_id = $1 and position % 2 = 0`,
      [id],
    )

    peer.answer({ status: 200 })
    const since = timestampFromMs(Date.now() - 1_800_000)
    expect(await client.recover({ endpointId: id, since })).toMatchObject({ recovered: 20n })
    await inState(id, 'DELIVERED', 20)
    const acknowledged = peer.requests.slice(21).map((request) => request.headers['webhook-id'])
    expect(acknowledged.sort()).toEqual(events.map((event) => event.id).sort())
    expect(await client.recover({ endpointId: id, since })).toMatchObject({ recovered: 0n })
    expect(other.requests).toHaveLength(21)
  })

  test('continues after a full page of which a delivery is claimed meanwhile', async () => {
    const { durablePool } = harness.database
    const webhooks = openWebhooks(harness.database)
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
})

describe('a test event', () => {
  test('goes to its endpoint only, whatever kinds that receives', async () => {
    const webhooks = harness.started()
    const client = clientOf(webhooks)
    const [peer, other] = [await harness.receiver(), await harness.receiver()]
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url, { kinds: ['ACCOUNT_CREATED'] })
    await addEndpoint(webhooks, business, other.url)
    const { eventId } = await client.sendTestEvent({ endpointId: id })
    const request = await peer.next()
    expect(request.headers['webhook-id']).toBe(eventId)
    expect(JSON.parse(request.rawBody)).toMatchObject({
      event: 'ENDPOINT_TEST',
      data: { type: 'WEBHOOK_ENDPOINT', endpoint: { endpoint_id: id, url: peer.url } },
    })
    const { deliveries } = await client.listDeliveries({ eventId })
    expect(deliveries.map((delivery) => delivery.endpointId)).toEqual([id])
    await harness.publish(paymentEvent(business))
    await other.next()
    expect(other.requests).toHaveLength(1)
  })
})
