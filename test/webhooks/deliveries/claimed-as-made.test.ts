import { expect, test } from 'vitest'
import { openDatabase } from '../../../src/postgres/orm.ts'
import type { Webhooks } from '../../../src/webhooks/webhooks.ts'
import type { Receiver } from '../../support/receiver.ts'
import { openWebhooks, paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, until, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

/** Of the deliveries that are pending: how they are claimed, and whether they were written once. */
async function pending(endpointId: string) {
  const { rows } = await harness.database.pool.query<{ claims: number; once: boolean }>(
    `select d.claims, d.xmin = (select xmin from webhook_dispatcher) as once
      from webhook_delivery d where endpoint_id = $1 and state = 'PENDING'
        and (claims > 0) = (leased_until is not null)`,
    [endpointId],
  )
  return rows
}

/** An endpoint that has just answered well. */
async function addWarm(webhooks: Webhooks, peer: Receiver, concurrency = 10) {
  const business = await harness.business()
  const { id } = await addEndpoint(webhooks, business, peer.url, { concurrency })
  await harness.publish(paymentEvent(business))
  webhooks.wake()
  await peer.next()
  await harness.settled(id)
  return { business, id }
}

test('what an endpoint that keeps up can take is claimed as it is made', async () => {
  const webhooks = harness.started()
  const peer = await harness.receiver()
  const { business, id } = await addWarm(webhooks, peer)
  peer.answer({ status: 200, delayMs: 300 })
  await harness.publish(paymentEvent(business))
  await peer.next()
  expect(await pending(id)).toEqual([{ claims: 1, once: true }])
  await harness.settled(id)
  expect((await harness.deliveries(id)).map(({ attempts }) => attempts)).toEqual([1, 1])
})

test('the rest is due, and another instance takes its part', async () => {
  const webhooks = harness.started()
  const peer = await harness.receiver()
  const { business, id } = await addWarm(webhooks, peer, 50)
  peer.answer('hang')
  await harness.publish(...Array.from({ length: 30 }, () => paymentEvent(business)))
  // Its limit is three after one success, and more is not claimed while they hang.
  await peer.waitFor((requests) => requests.length === 1 + 3)
  const rows = await pending(id)
  expect(rows.filter(({ claims }) => claims === 1)).toHaveLength(3)
  expect(rows.filter(({ claims }) => claims === 0)).toHaveLength(27)

  harness.started()
  await peer.waitFor((requests) => requests.length === 1 + 3 + 2)
  const ids = new Set(peer.requests.map(({ headers }) => headers['webhook-id']))
  expect(ids.size).toBe(6)
})

test('nothing is claimed for an endpoint that fails, or is disabled', async () => {
  const webhooks = harness.started({ retryScheduleMs: [60_000] })
  const [failing, disabled] = [await harness.receiver(), await harness.receiver()]
  const { business, id } = await addWarm(webhooks, failing)
  const other = await addWarm(webhooks, disabled)
  failing.answer({ status: 500 })
  await harness.publish(paymentEvent(business))
  await until(async () => (await harness.deliveries(id))[1]?.attempts === 1)
  await clientOf(webhooks).updateEndpoint({ endpointId: other.id, enabled: false })
  failing.answer({ status: 500, delayMs: 300 })
  await harness.publish(paymentEvent(business), paymentEvent(other.business))
  await failing.waitFor((requests) => requests.length === 3)
  // It was claimed, but not as it was made.
  expect((await pending(id)).at(-1)).toEqual({ claims: 1, once: false })
  expect(await pending(other.id)).toEqual([{ claims: 0, once: true }])
  await until(async () => (await harness.deliveries(id))[2]?.attempts === 1)
})

test('what a process that crashed had claimed so is sent after its lease', async () => {
  const lost = await openDatabase(harness.url)
  const crashing = openWebhooks(lost, { leaseMs: 1_500 })
  const peer = await harness.receiver()
  crashing.start()
  crashing.startBackground()
  const { business, id } = await addWarm(crashing, peer)
  peer.answer('hang')
  await harness.publish(paymentEvent(business))
  crashing.wake()
  await peer.next()
  expect(await pending(id)).toEqual([{ claims: 1, once: true }])
  await lost.close()

  peer.answer({ status: 200 })
  harness.started()
  await peer.next()
  await harness.settled(id)
  expect((await harness.deliveries(id))[1]).toMatchObject({ state: 'DELIVERED', attempts: 1 })
  await crashing.stop()
}, 20_000)

test('one that wakes up after its lease writes nothing down', async () => {
  const late = openWebhooks(harness.database, { leaseMs: 500 })
  const peer = await harness.receiver()
  late.start()
  late.startBackground()
  const { business, id } = await addWarm(late, peer)
  peer.answer(() =>
    peer.requests.length === 2 ? { status: 500, delayMs: 1_500 } : { status: 200 },
  )
  await harness.publish(paymentEvent(business))
  late.wake()
  await peer.next()
  expect(await pending(id)).toEqual([{ claims: 1, once: true }])
  harness.started()
  await peer.next()
  await harness.settled(id)
  await late.stop()
  const [, row] = await harness.deliveries(id)
  expect(row).toMatchObject({ state: 'DELIVERED', attempts: 1 })
  expect(row?.log).toMatchObject([{ status: 200 }])
}, 20_000)

test('one that stops gives them back', async () => {
  const stopping = openWebhooks(harness.database)
  const peer = await harness.receiver()
  stopping.start()
  stopping.startBackground()
  const { business, id } = await addWarm(stopping, peer)
  peer.answer('hang')
  await harness.publish(paymentEvent(business))
  stopping.wake()
  await peer.next()
  expect(await pending(id)).toEqual([{ claims: 1, once: true }])
  await stopping.stop()

  // Long before the lease would have ended.
  peer.answer({ status: 200 })
  harness.started()
  await peer.next()
  await harness.settled(id)
}, 20_000)

test('an endpoint that is always behind does not keep the retries of others waiting', async () => {
  const webhooks = harness.started({ retryScheduleMs: [1_000, 60_000] })
  const busy = await harness.receiver()
  const behind = await addWarm(webhooks, busy, 1)
  const failing = [await harness.receiver(), await harness.receiver()]
  busy.answer({ status: 200, delayMs: 20 })
  await harness.publish(...Array.from({ length: 500 }, () => paymentEvent(behind.business)))
  await busy.waitFor((requests) => requests.length > 2)
  // The retry of the second is due later than that of the first, and both while there is a backlog.
  for (const peer of failing) {
    peer.answer({ status: 500 })
    const business = await harness.business()
    await addEndpoint(webhooks, business, peer.url)
    await harness.publish(paymentEvent(business))
    await peer.waitFor((requests) => requests.length === 1)
  }
  for (const peer of failing) await peer.waitFor((requests) => requests.length === 2)
  expect((await pending(behind.id)).length).toBeGreaterThan(0)
}, 30_000)
