import { describe, expect, test } from 'vitest'
import { epochMs } from '../../../src/postgres/epoch-ms.ts'
import { dropPartition, listPartitions } from '../../../src/postgres/partitions/partitions.ts'
import { dispatchedUpTo } from '../../../src/webhooks/deliveries/backlog.ts'
import { completeAttempts } from '../../../src/webhooks/deliveries/record-attempt.ts'
import { RETRY_SCHEDULE_MS } from '../../../src/webhooks/deliveries/retry.ts'
import { paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, movableClock, until, useWebhooks } from '../harness.ts'

const DAY_MS = 86_400_000
const PAUSED_MAX_MS = RETRY_SCHEDULE_MS.reduce((sum, ms) => sum + ms, 0)

const harness = useWebhooks()

async function countAttempts(): Promise<number> {
  const { rows } = await harness.database.durablePool.query(
    `select (select count(*) from webhook_attempt)::int
      + (select count(*) from webhook_delivery where started_at is not null)::int as count`,
  )
  return rows[0].count
}

async function lastPosition(): Promise<bigint> {
  const { rows } = await harness.database.durablePool.query(
    'select max(position) as at from event_log',
  )
  return BigInt(rows[0].at)
}

describe('deliveries', () => {
  test('are dropped with their attempts once all of their partition are old enough', async () => {
    const clock = movableClock()
    const options = { clock, retentionDays: 30, retryScheduleMs: [10] }
    const webhooks = harness.started(options)
    const [well, dead] = [await harness.receiver(), await harness.receiver()]
    dead.answer({ status: 500 })
    const business = await harness.business()
    const kinds = ['PAYMENT_NOTIFICATION']
    const { id } = await addEndpoint(webhooks, business, well.url, { kinds })
    const { id: deadId } = await addEndpoint(webhooks, business, dead.url, { kinds })
    await harness.publish(...Array.from({ length: 25 }, () => paymentEvent(business)))
    const completed = (endpointId: string, count: number) =>
      until(async () => {
        const rows = await harness.deliveries(endpointId)
        return rows.filter((row) => row.completed_at).length === count
      })
    await completed(id, 25)
    await completed(deadId, 25)
    await harness.cut()
    expect(await countAttempts()).toBe(75)

    clock.advance(29 * DAY_MS)
    expect(await webhooks.retention.run()).toEqual({ expired: 0, dropped: 0, inUse: false })
    await harness.publish(paymentEvent(business))
    await completed(id, 26)
    await completed(deadId, 26)
    await harness.cut()
    clock.advance(2 * DAY_MS)
    const reader = await harness.database.durablePool.connect()
    await reader.query('begin')
    await reader.query('select from webhook_delivery limit 1')
    expect(await webhooks.retention.run()).toEqual({ expired: 0, dropped: 0, inUse: true })
    await reader.query('rollback')
    reader.release()
    expect(await webhooks.retention.run()).toEqual({ expired: 0, dropped: 1, inUse: false })
    expect(await harness.deliveries(id)).toHaveLength(1)
    expect(await harness.deliveries(deadId)).toHaveLength(1)
    expect(await countAttempts()).toBe(3)
    clock.advance(30 * DAY_MS)
    expect(await webhooks.retention.run()).toEqual({ expired: 0, dropped: 1, inUse: false })
    expect(await countAttempts()).toBe(0)
  })

  test('are kept while one of their partition is not old enough', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock, retentionDays: 30 })
    const peer = await harness.receiver()
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await harness.publish(paymentEvent(business))
    await harness.allCompleted(id)
    clock.advance(20 * DAY_MS)
    await harness.publish(paymentEvent(business))
    await harness.allCompleted(id)
    await harness.cut()
    clock.advance(15 * DAY_MS)
    expect(await webhooks.retention.run()).toMatchObject({ dropped: 0 })
    expect(await harness.deliveries(id)).toHaveLength(2)
    clock.advance(20 * DAY_MS)
    expect(await webhooks.retention.run()).toMatchObject({ dropped: 1 })
  })

  test('that are pending or in progress are dropped too, and disturb no others', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock, retryScheduleMs: [60 * DAY_MS] })
    const [waiting, busy] = [await harness.receiver(), await harness.receiver()]
    waiting.answer({ status: 500 })
    busy.answer('hang')
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, waiting.url)
    const { id: busyId } = await addEndpoint(webhooks, business, busy.url)
    await harness.publish(paymentEvent(business))
    await until(async () => (await harness.deliveries(id))[0]?.attempts === 1)
    await busy.next()
    await harness.cut()
    clock.advance(31 * DAY_MS)
    expect(await webhooks.retention.run()).toMatchObject({ dropped: 1 })
    expect(await harness.deliveries(id)).toEqual([])

    waiting.answer({ status: 200 })
    busy.answer({ status: 200 })
    const event = paymentEvent(business)
    await harness.publish(event)
    for (const peer of [waiting, busy]) {
      const requests = await peer.waitFor((all) => all.length === 2)
      expect(requests[1]!.headers['webhook-id']).toBe(event.id)
    }
    await harness.allCompleted(busyId)
    expect((await harness.deliveries(busyId)).map(({ state }) => state)).toEqual(['DELIVERED'])
  })
})

describe('a pending delivery', () => {
  test('to an endpoint that does not respond holds back no retention of events', async () => {
    const webhooks = harness.started({ retryScheduleMs: [DAY_MS] })
    const peer = await harness.receiver()
    peer.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await harness.publish(paymentEvent(business), paymentEvent(business))
    await until(
      async () => (await harness.deliveries(id)).filter((row) => row.attempts === 1).length === 2,
    )
    expect(await dispatchedUpTo(harness.database.durablePool)).toBe(await lastPosition())
  })

  test('to a deleted endpoint fails, and the endpoint is purged later', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock, retryScheduleMs: [DAY_MS] })
    const client = clientOf(webhooks)
    const peer = await harness.receiver()
    peer.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await harness.publish(paymentEvent(business))
    await until(async () => (await harness.deliveries(id))[0]?.attempts === 1)
    await client.deleteEndpoint({ endpointId: id })
    // Its retry is not due yet, so an attempt could still be in progress.
    expect(await webhooks.retention.run()).toMatchObject({ expired: 0 })
    clock.advance(2 * DAY_MS)
    expect(await webhooks.retention.run()).toMatchObject({ expired: 1 })
    const [row] = await harness.deliveries(id)
    expect(row).toMatchObject({ state: 'FAILED', failure: 'the endpoint was removed' })
    const left = async () => {
      const { rows } = await harness.database.durablePool.query(
        `select (select count(*)::int from webhook_endpoint where id = $1) as endpoints,
          (select count(*)::int from webhook_secret where endpoint_id = $1) as secrets`,
        [id],
      )
      return rows
    }
    clock.advance(31 * DAY_MS)
    await webhooks.retention.run()
    // Its delivery is still there, in a partition that takes new ones.
    expect(await left()).toEqual([{ endpoints: 1, secrets: 1 }])
    await harness.cut()
    await webhooks.retention.run()
    expect(await left()).toEqual([{ endpoints: 0, secrets: 0 }])
  })

  test('to a deleted endpoint fails once its lease has ended, and a late attempt changes nothing', async () => {
    const { durablePool } = harness.database
    const clock = movableClock()
    const webhooks = harness.started({ clock })
    const peer = await harness.receiver()
    peer.answer('hang')
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await harness.publish(paymentEvent(business))
    await peer.next()
    await clientOf(webhooks).deleteEndpoint({ endpointId: id })
    const { rows } = await durablePool.query(
      `select id, position, claims, ${epochMs('leased_until')} as leased_until_ms
        from webhook_delivery where endpoint_id = $1`,
      [id],
    )
    const [{ id: deliveryId, position, claims, leased_until_ms: leasedUntilMs }] = rows
    clock.advance(1_000)
    expect(await webhooks.retention.run()).toMatchObject({ expired: 0 })
    clock.advance(leasedUntilMs - clock.now() + 1_000)
    expect(await webhooks.retention.run()).toMatchObject({ expired: 1 })

    const attempt = { id: deliveryId, position: BigInt(position), fence: claims }
    const response = { latencyMs: 5, status: 200, responseBody: '', error: '' }
    const atMs = clock.now()
    const completion = { ...attempt, ...response, state: 'DELIVERED' as const, atMs }
    expect(await completeAttempts(durablePool, [{ ...completion, startedAtMs: atMs }])).toEqual([
      undefined,
    ])
    const [row] = await harness.deliveries(id)
    expect(row).toMatchObject({ state: 'FAILED', failure: 'the endpoint was removed' })
  })

  test('to a disabled endpoint is paused, then fails, and is recoverable', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock, retryScheduleMs: RETRY_SCHEDULE_MS })
    const client = clientOf(webhooks)
    const [peer, other] = [await harness.receiver(), await harness.receiver()]
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    const { id: otherId } = await addEndpoint(webhooks, business, other.url)
    await client.updateEndpoint({ endpointId: id, enabled: false })
    const event = paymentEvent(business)
    await harness.publish(event)
    await other.next()
    await harness.allCompleted(otherId)
    clock.advance(PAUSED_MAX_MS - 60_000)
    expect(await webhooks.retention.run()).toMatchObject({ expired: 0 })
    clock.advance(120_000)
    expect(await webhooks.retention.run()).toMatchObject({ expired: 1 })
    expect((await harness.deliveries(id))[0]?.failure).toBe(
      'the endpoint was disabled for longer than the retry period',
    )

    await client.updateEndpoint({ endpointId: id, enabled: true })
    const since = { seconds: 0n, nanos: 0 }
    expect(await client.recover({ endpointId: id, since })).toMatchObject({ recovered: 1n })
    expect((await peer.next()).headers['webhook-id']).toBe(event.id)
  })
})

describe('a disabled endpoint', () => {
  test('gets no deliveries once it was disabled for longer than they are paused, and then the next ones', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock, retryScheduleMs: RETRY_SCHEDULE_MS })
    const client = clientOf(webhooks)
    const [peer, other] = [await harness.receiver(), await harness.receiver()]
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await addEndpoint(webhooks, business, other.url)
    await client.updateEndpoint({ endpointId: id, enabled: false })
    const [held, skipped, next] = [1n, 2n, 3n].map((amount) => paymentEvent(business, amount))
    clock.advance(PAUSED_MAX_MS - 60_000)
    await harness.publish(held!)
    await other.next()
    expect(await harness.deliveries(id)).toHaveLength(1)
    clock.advance(120_000)
    await harness.publish(skipped!)
    await other.next()
    expect(await harness.deliveries(id)).toHaveLength(1)

    await client.updateEndpoint({ endpointId: id, enabled: true })
    await harness.publish(next!)
    const received = [await peer.next(), await peer.next()].map(
      ({ headers }) => headers['webhook-id'],
    )
    expect(received).toEqual([held!.id, next!.id])
  })
})

// Last, as it cuts partitions ahead.
test('partitions of events that are not dispatched yet are kept', async () => {
  const { durablePool } = harness.database
  harness.started()
  await until(async () => (await dispatchedUpTo(durablePool)) === (await lastPosition()))
  await harness.cut(1n)
  const [part] = (await listPartitions(durablePool, 'webhook_delivery')).slice(-2)
  expect(await dropPartition(durablePool, 'webhook_delivery', part!.name)).toBe(false)
  expect(
    await dropPartition(durablePool, 'webhook_attempt', part!.name.replace('delivery', 'attempt')),
  ).toBe(false)
})
