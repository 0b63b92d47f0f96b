import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { dispatchEvents } from '../../../src/webhooks/dispatch.ts'
import { accountEvent, openWebhooks, paymentEvent, type TestEvent } from '../fixture.ts'
import { addEndpoint, clientOf, movableClock, until, useWebhooks } from '../harness.ts'

const DAY_MS = 86_400_000

const harness = useWebhooks()

/** [previous_sequence, sequence] of what a receiver got, in the order of the sequence. */
function linksOf(requests: readonly { readonly rawBody: string }[]): [number, number][] {
  return requests
    .map(({ rawBody }) => JSON.parse(rawBody).data)
    .map((data): [number, number] => [data.previous_sequence, data.sequence])
    .sort(([, one], [, other]) => one - other)
}

describe('data.previous_sequence', () => {
  test('skips what the endpoint is not sent, also over changes of its kinds', async () => {
    const webhooks = harness.started()
    const receiver = await harness.receiver()
    const business = await harness.business()
    const { id: endpointId } = await addEndpoint(webhooks, business, receiver.url, {
      kinds: ['PAYMENT_NOTIFICATION'],
    })
    const [account, payment] = [() => accountEvent(business), () => paymentEvent(business)]
    await harness.publish(account(), payment(), account(), account(), payment(), payment())
    await receiver.waitFor((all) => all.length === 3)
    await clientOf(webhooks).updateEndpoint({ endpointId, kinds: ['ACCOUNT_CREATED'] })
    await harness.publish(payment(), account(), payment(), account())
    await receiver.waitFor((all) => all.length === 5)
    await clientOf(webhooks).updateEndpoint({ endpointId, allKinds: true })
    await harness.publish(account(), payment())
    const requests = await receiver.waitFor((all) => all.length === 6)
    expect(linksOf(requests)).toEqual([
      [0, 2],
      [2, 5],
      [5, 6],
      [6, 8],
      [8, 10],
      [10, 12],
    ])
  })

  test('is the same on every attempt, and different for each endpoint', async () => {
    const webhooks = harness.started()
    const [first, second] = [await harness.receiver(), await harness.receiver()]
    const business = await harness.business()
    await addEndpoint(webhooks, business, first.url)
    await harness.publish(paymentEvent(business))
    await first.waitFor((all) => all.length === 1)
    await addEndpoint(webhooks, business, second.url)
    let failures = 2
    first.answer(() => ({ status: failures-- > 0 ? 500 : 200 }))
    await harness.publish(paymentEvent(business))
    const requests = await first.waitFor((all) => all.length === 4)
    expect(new Set(requests.slice(1).map(({ rawBody }) => rawBody)).size).toBe(1)
    expect(linksOf(requests.slice(1))[0]).toEqual([1, 2])
    expect(linksOf([await second.next()])).toEqual([[0, 2]])
  })

  test('outlives the delivery that it refers to', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock, retentionDays: 1 })
    const receiver = await harness.receiver()
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, receiver.url)
    await harness.publish(paymentEvent(business), paymentEvent(business))
    await harness.allCompleted(id)
    await harness.cut()
    clock.advance(3 * DAY_MS)
    await until(async () => (await webhooks.retention.run()).dropped > 0)
    expect(await harness.deliveries(id)).toEqual([])
    await harness.publish(paymentEvent(business))
    expect(linksOf(await receiver.waitFor((all) => all.length === 3))).toContainEqual([2, 3])
  })

  test('chains the deliveries of any endpoints, however the events are dispatched', async () => {
    const { durablePool } = harness.database
    const business = await harness.business()
    const webhooks = openWebhooks(harness.database)
    harness.closing(() => webhooks.stop())
    const names = ['PAYMENT_NOTIFICATION', 'ACCOUNT_CREATED']
    const endpoints = await Promise.all(
      [[], names, ...names.map((name) => [name])].map((kinds) =>
        addEndpoint(webhooks, business, 'http://127.0.0.1:9', { kinds }),
      ),
    )
    const dispatch = (recentFrom: bigint) =>
      dispatchEvents(durablePool, {
        ...{ idPrefix: 'dlv_0000000000', eventsMax: 3, leaseMs: 60_000, nowMs: Date.now() },
        ...{ allotments: [], pausedBeforeMs: 0, recentFrom },
      })
    const step = fc.record({
      events: fc.array(fc.constantFrom(paymentEvent, accountEvent), { maxLength: 7 }),
      // Where to look first changes the cost, and nothing else.
      recentFrom: fc.constantFrom(0n, 5n, 20n, 1_000_000n),
      changed: fc.nat(endpoints.length - 1),
      kinds: fc.subarray(names),
    })
    await fc.assert(
      fc.asyncProperty(step, async ({ events, recentFrom, changed, kinds }) => {
        const made: TestEvent[] = events.map((make) => make(business))
        await harness.publish(...made)
        while ((await dispatch(recentFrom)).events > 0);
        const change = kinds.length > 0 ? { kinds } : { allKinds: true }
        const endpointId = endpoints[changed]!.id
        await clientOf(webhooks).updateEndpoint({ endpointId, ...change })
      }),
      { numRuns: 40 },
    )
    const { rows } = await durablePool.query(
      `select sequence, previous_sequence, business_sequence,
          lag(sequence, 1, 0::bigint) over (partition by endpoint_id order by position) as expected
        from webhook_delivery join event_log using (position)`,
    )
    expect(rows.length).toBeGreaterThan(100)
    expect(rows.filter((row) => row.previous_sequence !== row.expected)).toEqual([])
    expect(rows.filter((row) => row.sequence !== row.business_sequence)).toEqual([])
  })
})
