import { expect, test } from 'vitest'
import type { Webhooks } from '../../../src/webhooks/webhooks.ts'
import type { Receiver } from '../../support/receiver.ts'
import { waitUntil } from '../../support/wait-for.ts'
import { paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

/** The pending deliveries: how often they were claimed, and whether they were written only once. */
async function pending(endpointId: string) {
  const { rows } = await harness.database.durablePool.query<{ claims: number; once: boolean }>(
    `select d.claims, d.xmin in (select xmin from webhook_dispatcher) as once
      from webhook_delivery d where endpoint_id = $1 and state = 'PENDING'
        and (claims > 0) = (leased_until is not null)`,
    [endpointId],
  )
  return rows
}

/** An endpoint that has just acknowledged a delivery. */
async function addWarm(webhooks: Webhooks, peer: Receiver, concurrency = 10) {
  for (;;) {
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url, { concurrency })
    await harness.publish(paymentEvent(business))
    await peer.next()
    await harness.allCompleted(id)
    const [delivery] = await harness.deliveries(id)
    // An endpoint that took half a second is slow.
    if (delivery!.log![0]!.latency_ms < 500) return { business, id, warmed: peer.requests.length }
  }
}

test('deliveries to an endpoint that keeps up are created as claimed', async () => {
  const webhooks = harness.started()
  const peer = await harness.receiver()
  const { business, id } = await addWarm(webhooks, peer)
  const seen = Promise.withResolvers<void>()
  peer.answer({ status: 200, after: seen.promise })
  await harness.publish(paymentEvent(business))
  await peer.next()
  expect(await pending(id)).toEqual([{ claims: 1, once: true }])
  seen.resolve()
  await harness.allCompleted(id)
  expect((await harness.deliveries(id)).map(({ attempts }) => attempts)).toEqual([1, 1])
})

test('deliveries beyond the limit are due, and another instance claims some', async () => {
  const webhooks = harness.started()
  const peer = await harness.receiver()
  const { business, id, warmed } = await addWarm(webhooks, peer, 50)
  const counted = Promise.withResolvers<void>()
  peer.answer({ status: 200, after: counted.promise })
  await harness.publish(...Array.from({ length: 30 }, () => paymentEvent(business)))
  // Its limit is three after one success; no more are claimed while those hang.
  await peer.waitFor((requests) => requests.length === warmed + 3)
  const rows = await pending(id)
  expect(rows.filter(({ claims }) => claims === 1)).toHaveLength(3)
  expect(rows.filter(({ claims }) => claims === 0)).toHaveLength(27)

  harness.started()
  await peer.waitFor((requests) => requests.length === warmed + 3 + 2)
  const ids = new Set(peer.requests.map(({ headers }) => headers['webhook-id']))
  expect(ids.size).toBe(warmed + 5)
  counted.resolve()
})

test('no deliveries are created as claimed for an endpoint that fails or is disabled', async () => {
  const webhooks = harness.started({ retryScheduleMs: [60_000] })
  const [failing, disabled] = [await harness.receiver(), await harness.receiver()]
  const { business, id, warmed } = await addWarm(webhooks, failing)
  const other = await addWarm(webhooks, disabled)
  failing.answer({ status: 500 })
  await harness.publish(paymentEvent(business))
  await waitUntil(async () => (await harness.deliveries(id))[1]?.attempts === 1)
  await clientOf(webhooks).updateEndpoint({ endpointId: other.id, enabled: false })
  const seen = Promise.withResolvers<void>()
  failing.answer({ status: 500, after: seen.promise })
  await harness.publish(paymentEvent(business), paymentEvent(other.business))
  await failing.waitFor((requests) => requests.length === warmed + 2)
  // It was claimed, but not at its creation.
  expect((await pending(id)).at(-1)).toEqual({ claims: 1, once: false })
  expect(await pending(other.id)).toEqual([{ claims: 0, once: true }])
  seen.resolve()
  await waitUntil(async () => (await harness.deliveries(id))[2]?.attempts === 1)
})

test('a process that stops releases them', async () => {
  const stopping = harness.started()
  const peer = await harness.receiver()
  const { business, id } = await addWarm(stopping, peer)
  peer.answer('hang')
  await harness.publish(paymentEvent(business))
  await peer.next()
  expect(await pending(id)).toEqual([{ claims: 1, once: true }])
  await stopping.stop()

  // Long before the lease would have ended.
  peer.answer({ status: 200 })
  harness.started()
  await peer.next()
  await harness.allCompleted(id)
})

test('an endpoint with a constant backlog does not delay the retries of others', async () => {
  const webhooks = harness.started({ retryScheduleMs: [1_000, 60_000] })
  const busy = await harness.receiver()
  const behind = await addWarm(webhooks, busy, 1)
  const failing = [await harness.receiver(), await harness.receiver()]
  busy.answer({ status: 200, delayMs: 20 })
  await harness.publish(...Array.from({ length: 3_000 }, () => paymentEvent(behind.business)))
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
})
