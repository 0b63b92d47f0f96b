import { describe, expect, test } from 'vitest'
import { judge } from '../../../src/webhooks/endpoints/endpoint.ts'
import { updateHealth } from '../../../src/webhooks/endpoints/watch-health.ts'
import { createTestRuntime } from '../../support/runtime.ts'
import { paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, movableClock, until, useWebhooks } from '../harness.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

const harness = useWebhooks()

/** Retries that are always due soon. */
const RETRY_SOON = Array<number>(1_000).fill(20)

const bodyOf = (request: { rawBody: string }) => JSON.parse(request.rawBody)

async function rowOf(id: string) {
  const { rows } = await harness.database.durablePool.query(
    'select * from webhook_endpoint where id = $1',
    [id],
  )
  return rows[0]
}

describe('the rule', () => {
  const now = 100 * DAY_MS
  test.each([
    [null, null, 'keep'],
    [now, null, 'keep'],
    [now - DAY_MS + 1, null, 'keep'],
    [now - DAY_MS, null, 'warn'],
    // The service was down for days: a warning still comes first.
    [now - 9 * DAY_MS, null, 'warn'],
    [now - 9 * DAY_MS, now - DAY_MS + 1, 'keep'],
    [now - 9 * DAY_MS, now - DAY_MS, 'disable'],
    [now - 5 * DAY_MS + 1, now - 4 * DAY_MS, 'keep'],
    [now - 5 * DAY_MS, now - 4 * DAY_MS, 'disable'],
  ] as const)('failing since %s, warned at %s: %s', (failingSinceMs, warnedAtMs, verdict) => {
    expect(judge({ failingSinceMs, warnedAtMs }, now)).toBe(verdict)
  })
})

describe('an endpoint that responds with 410', () => {
  test('is disabled at once, and the business’s other endpoints are notified', async () => {
    const webhooks = harness.started({ retryScheduleMs: Array(100).fill(300) })
    const [gone, other, foreign] = [
      await harness.receiver(),
      await harness.receiver(),
      await harness.receiver(),
    ]
    gone.answer({ status: 410 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, `${gone.url}/hook/secret?token=secret`)
    await addEndpoint(webhooks, business, other.url)
    await addEndpoint(webhooks, await harness.business(), foreign.url)
    await harness.publish(paymentEvent(business))

    await other.waitFor((requests) => requests.length === 2)
    const event = other.requests.map(bodyOf).find((body) => body.event === 'ENDPOINT_DISABLED')
    expect(event.data).toMatchObject({
      type: 'WEBHOOK_ENDPOINT',
      status: 'DISABLED',
      sequence: 2,
      endpoint: { endpoint_id: id, url: new URL(gone.url).origin, disabled_reason: 'GONE' },
    })
    expect(JSON.stringify(event)).not.toContain('secret')
    expect(event.data).not.toHaveProperty('reference')
    expect(event.data.endpoint.disabled_at).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)

    // Its later deliveries are paused, and the other endpoint gets its own.
    const attempts = gone.requests.length
    await harness.publish(paymentEvent(business))
    await other.waitFor((requests) => requests.length === 3)
    expect(gone.requests).toHaveLength(attempts)
    expect(foreign.requests).toHaveLength(0)
    expect((await harness.deliveries(id)).map((row) => row.state)).toEqual(['PENDING', 'PENDING'])
    const { endpoints } = await clientOf(webhooks).listEndpoints({ businessId: business })
    expect(endpoints.find((endpoint) => endpoint.id === id)).toMatchObject({
      status: 2,
      disabledReason: 2,
    })

    gone.answer({ status: 200 })
    const { endpoint } = await clientOf(webhooks).updateEndpoint({ endpointId: id, enabled: true })
    expect(endpoint).toMatchObject({ status: 1, disabledReason: 0 })
    expect(endpoint?.disabledAt).toBeUndefined()
    expect(endpoint?.failingSince).toBeUndefined()
    await until(async () =>
      (await harness.deliveries(id)).every((row) => row.state === 'DELIVERED'),
    )
    // It receives no events about itself.
    const kinds = new Set(gone.requests.map((request) => bodyOf(request).event))
    expect([...kinds]).toEqual(['PAYMENT_NOTIFICATION'])
  })

  test('is not disabled for the response of its earlier URL', async () => {
    const webhooks = harness.started({ retryScheduleMs: RETRY_SOON })
    const [old, fresh] = [await harness.receiver(), await harness.receiver()]
    const moved = Promise.withResolvers<void>()
    old.answer({ status: 410, after: moved.promise })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, old.url)
    await harness.publish(paymentEvent(business))
    await old.next()
    await clientOf(webhooks).updateEndpoint({ endpointId: id, url: fresh.url })
    moved.resolve()
    await fresh.next()
    const judged = async (url: string) => {
      const health = { failingSinceMs: null, warnedAtMs: null }
      await updateHealth(createTestRuntime(harness.database), {
        endpointId: id,
        url,
        status: 410,
        health,
      })
      return (await rowOf(id)).disabled_reason
    }
    // However late it is judged.
    expect(await judged(old.url)).toBeNull()
    expect(await judged(fresh.url)).toBe('GONE')
  })
})

describe('an endpoint that keeps failing', () => {
  test('causes one warning after a day, and is disabled after five', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock, retryScheduleMs: RETRY_SOON })
    const [dead, other] = [await harness.receiver(), await harness.receiver()]
    dead.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, dead.url)
    const { id: otherId } = await addEndpoint(webhooks, business, other.url, {
      kinds: ['ENDPOINT_FAILING', 'ENDPOINT_DISABLED'],
    })
    await harness.publish(paymentEvent(business))
    const failingSince = await until(async () => (await rowOf(id)).failing_since)

    clock.advance(DAY_MS - HOUR_MS)
    const before = dead.requests.length
    await dead.waitFor((requests) => requests.length > before + 3)
    expect(other.requests).toHaveLength(0)

    clock.advance(HOUR_MS)
    const warning = bodyOf(await other.next())
    expect(warning).toMatchObject({
      event: 'ENDPOINT_FAILING',
      data: { type: 'WEBHOOK_ENDPOINT', status: 'ENABLED', endpoint: { endpoint_id: id } },
    })
    expect(warning.data.endpoint).toHaveProperty('failing_since')
    expect(warning.data.endpoint).not.toHaveProperty('disabled_at')

    await harness.allCompleted(otherId)
    clock.advance(4 * DAY_MS)
    const end = bodyOf(await other.next())
    expect(end).toMatchObject({
      event: 'ENDPOINT_DISABLED',
      data: { status: 'DISABLED', endpoint: { endpoint_id: id, disabled_reason: 'FAILING' } },
    })
    expect(await rowOf(id)).toMatchObject({
      failing_since: failingSince,
      disabled_reason: 'FAILING',
    })
    expect(other.requests).toHaveLength(2)
  })

  test('is healthy again after a success', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock, retryScheduleMs: RETRY_SOON })
    const [peer, other] = [await harness.receiver(), await harness.receiver()]
    peer.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    const { id: otherId } = await addEndpoint(webhooks, business, other.url, {
      kinds: ['ENDPOINT_FAILING'],
    })
    await harness.publish(paymentEvent(business))
    await until(async () => (await rowOf(id)).failing_since)
    clock.advance(DAY_MS)
    await other.next()
    await harness.allCompleted(otherId)
    peer.answer({ status: 200 })
    await until(async () => (await rowOf(id)).failing_since === null)
    expect((await rowOf(id)).warned_at).toBeNull()

    peer.answer({ status: 500 })
    clock.advance(5 * DAY_MS)
    await harness.publish(paymentEvent(business))
    const failures = peer.requests.length
    await peer.waitFor((requests) => requests.length > failures + 3)
    expect(await rowOf(id)).toMatchObject({ disabled_at: null, warned_at: null })
    clock.advance(DAY_MS)
    await other.next()
  })

  test('is healthy again at another URL', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock, retryScheduleMs: [60_000] })
    const [dead, next] = [await harness.receiver(), await harness.receiver()]
    for (const peer of [dead, next]) peer.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, dead.url)
    await harness.publish(paymentEvent(business))
    const failingSince = await until(async () => (await rowOf(id)).failing_since)
    // The same URL is no change.
    await clientOf(webhooks).updateEndpoint({ endpointId: id, url: dead.url })
    expect((await rowOf(id)).failing_since).toEqual(failingSince)
    const { endpoint } = await clientOf(webhooks).updateEndpoint({ endpointId: id, url: next.url })
    expect(endpoint?.failingSince).toBeUndefined()
    // The retry, which is due only now, fails at the new URL, and counts from now on.
    clock.advance(5 * DAY_MS)
    await next.next()
    const failingAgain = await until(async () => (await rowOf(id)).failing_since)
    expect(Date.parse(failingAgain)).toBeGreaterThanOrEqual(Date.parse(failingSince) + 5 * DAY_MS)
    expect(await rowOf(id)).toMatchObject({ disabled_at: null, warned_at: null })
  })

  test('causes one warning although many instances see it fail', async () => {
    const clock = movableClock()
    const options = { clock, retryScheduleMs: RETRY_SOON }
    const webhooks = harness.started(options)
    harness.started(options)
    harness.started(options)
    const [dead, other] = [await harness.receiver(), await harness.receiver()]
    dead.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, dead.url)
    await addEndpoint(webhooks, business, other.url, {
      kinds: ['ENDPOINT_FAILING', 'ENDPOINT_DISABLED'],
    })
    await harness.publish(...Array.from({ length: 10 }, () => paymentEvent(business)))
    await until(async () => (await rowOf(id)).failing_since)
    // The clock ends leases too, so the other endpoint may receive an event twice.
    const eventKinds = (count: number) =>
      other.waitFor(
        (requests) => new Set(requests.map((request) => bodyOf(request).event)).size === count,
      )
    clock.advance(DAY_MS)
    await eventKinds(1)
    clock.advance(4 * DAY_MS)
    await eventKinds(2)
    const { rows } = await harness.database.durablePool.query(
      'select kind from outbox where subject_id = $1 order by seq',
      [id],
    )
    expect(rows.map((row) => row.kind)).toEqual(['ENDPOINT_FAILING', 'ENDPOINT_DISABLED'])
  })
})
