import { describe, expect, test } from 'vitest'
import { dispatchedUpTo } from '../../../src/webhooks/deliveries/dispatcher-position.ts'
import { RETRY_SCHEDULE_MS } from '../../../src/webhooks/deliveries/retry.ts'
import { paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, movableClock, until, useWebhooks } from '../harness.ts'

const DAY_MS = 86_400_000
const PAUSED_MAX_MS = RETRY_SCHEDULE_MS.reduce((sum, ms) => sum + ms, 0)

const harness = useWebhooks()

async function countAttempts(): Promise<number> {
  const { rows } = await harness.database.pool.query(
    `select (select count(*) from webhook_attempt)::int
      + (select count(*) from webhook_delivery where started_at is not null)::int as count`,
  )
  return rows[0].count
}

async function lastPosition(): Promise<bigint> {
  const { rows } = await harness.database.pool.query('select max(position) as at from event_log')
  return BigInt(rows[0].at)
}

describe('deliveries', () => {
  test('are deleted with their attempts once they were completed long enough ago', async () => {
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
    expect(await countAttempts()).toBe(75)

    clock.advance(29 * DAY_MS)
    expect(await webhooks.retention.run()).toEqual({ expired: 0, deleted: 0 })
    await harness.publish(paymentEvent(business))
    await completed(id, 26)
    await completed(deadId, 26)
    clock.advance(2 * DAY_MS)
    expect(await webhooks.retention.run()).toEqual({ expired: 0, deleted: 50 })
    expect(await harness.deliveries(id)).toHaveLength(1)
    expect(await harness.deliveries(deadId)).toHaveLength(1)
    expect(await countAttempts()).toBe(3)
  })

  test('are kept while pending, and for the retention time after a late completion', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock, retentionDays: 30, retryScheduleMs: [DAY_MS] })
    const peer = await harness.receiver()
    peer.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await harness.publish(paymentEvent(business))
    const row = await until(async () => {
      const [first] = await harness.deliveries(id)
      return first?.attempts === 1 ? first : undefined
    })
    await harness.database.pool.query(
      `update webhook_delivery set due_at = now() + interval '60 days' where id = $1`,
      [row.id],
    )
    clock.advance(40 * DAY_MS)
    expect(await webhooks.retention.run()).toMatchObject({ deleted: 0 })
    peer.answer({ status: 200 })
    await clientOf(webhooks).redeliver({ deliveryId: row.id })
    await until(async () => (await harness.deliveries(id))[0]?.completed_at)
    expect(await webhooks.retention.run()).toMatchObject({ deleted: 0 })
    clock.advance(31 * DAY_MS)
    expect(await webhooks.retention.run()).toMatchObject({ deleted: 1 })
    expect(await harness.deliveries(id)).toEqual([])
  })

  test('are deleted in batches, whatever their number', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, 'https://a.example/')
    await harness.database.pool.query(
      `insert into webhook_delivery
        (id, endpoint_id, position, state, attempts, due_at, claims, created_at, completed_at)
      select 'dlv_00000' || lpad(n::text, 21, '0'), $1, n, 'DELIVERED', 1, now(), 1,
        now() - interval '40 days', now() - interval '40 days'
      from generate_series(1000001, 1005500) as n`,
      [id],
    )
    await harness.database.pool.query(
      `insert into webhook_attempt
        (delivery_id, number, started_at, latency_ms, status, response_body, error)
      select id, 1, now(), 1, 200, '', '' from webhook_delivery where endpoint_id = $1`,
      [id],
    )
    expect(await webhooks.retention.run()).toMatchObject({ deleted: 5_500 })
    expect(await harness.deliveries(id)).toEqual([])
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
    expect(await dispatchedUpTo(harness.database.pool)).toBe(await lastPosition())
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

    clock.advance(31 * DAY_MS)
    await webhooks.retention.run()
    const { rows } = await harness.database.pool.query(
      `select (select count(*)::int from webhook_endpoint where id = $1) as endpoints,
        (select count(*)::int from webhook_secret where endpoint_id = $1) as secrets`,
      [id],
    )
    expect(rows).toEqual([{ endpoints: 0, secrets: 0 }])
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
