import { describe, expect, test } from 'vitest'
import { claimOrdered, SCANNED_MAX } from '../../../src/webhooks/deliveries/claim-ordered.ts'
import { dispatchEvents } from '../../../src/webhooks/dispatch.ts'
import { nodesOf } from '../../postgres/explained-database.ts'
import { explain } from '../../support/explained-client.ts'
import type { ReceivedRequest } from '../../support/receiver.ts'
import { openWebhooks, paymentEvent } from '../fixture.ts'
import { clientOf, until, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

const sequenceOf = ({ rawBody }: ReceivedRequest): number => JSON.parse(rawBody).data.sequence
const payments = (businessId: string, count: number) =>
  Array.from({ length: count }, () => paymentEvent(businessId))

/** An ordered endpoint at a receiver, served by two instances. */
async function setUp(options = { ordered: true }, retryScheduleMs = [20, 20, 20]) {
  const [webhooks] = [harness.started({ retryScheduleMs }), harness.started({ retryScheduleMs })]
  const client = clientOf(webhooks)
  const receiver = await harness.receiver()
  const businessId = await harness.business()
  const { endpoint } = await client.createEndpoint({ businessId, url: receiver.url, options })
  const publish = (count: number) => harness.publish(...payments(businessId, count))
  return { client, receiver, businessId, endpointId: endpoint!.id, publish }
}

/** What an ordered receiver acknowledged, in the order of the requests. Fails if one came too early. */
function orderOf(requests: readonly ReceivedRequest[], isOk: (index: number) => boolean): number[] {
  const acknowledged: number[] = []
  for (const [index, request] of requests.entries()) {
    const sequence = sequenceOf(request)
    const expected = (acknowledged.at(-1) ?? 0) + 1
    // At least once: the last one may be repeated.
    expect([expected, expected - 1]).toContain(sequence)
    if (isOk(index) && sequence === expected) acknowledged.push(sequence)
  }
  return acknowledged
}

describe('an ordered endpoint', () => {
  test('is sent each event after the one before was acknowledged, whatever fails', async () => {
    const { receiver, publish, endpointId } = await setUp()
    // Every third attempt fails.
    let attempts = 0
    receiver.answer(() => ({ status: attempts++ % 3 === 1 ? 500 : 200, delayMs: 5 }))
    for (const count of [1, 9, 20]) await publish(count)
    await harness.allCompleted(endpointId)
    const order = orderOf(receiver.requests, (index) => index % 3 !== 1)
    expect(order).toEqual(Array.from({ length: 30 }, (_, index) => index + 1))
  })

  test('has no last attempt: an event is retried until it is acknowledged', async () => {
    const { receiver, publish, endpointId } = await setUp({ ordered: true }, [10])
    let failures = 6
    receiver.answer(() => ({ status: failures-- > 0 ? 503 : 200 }))
    await publish(2)
    await harness.allCompleted(endpointId)
    const rows = await harness.deliveries(endpointId)
    expect(rows.map(({ state, attempts }) => [state, attempts])).toEqual([
      ['DELIVERED', 7],
      ['DELIVERED', 1],
    ])
    expect(receiver.requests.map(sequenceOf)).toEqual([1, 1, 1, 1, 1, 1, 1, 2])
  })

  test('shows what blocks it, which can be skipped', async () => {
    const { client, receiver, publish, endpointId, businessId } = await setUp(
      undefined,
      [3_600_000],
    )
    receiver.answer((request) => ({ status: sequenceOf(request) === 2 ? 500 : 200 }))
    await publish(4)
    const list = async () => (await client.listEndpoints({ businessId })).endpoints[0]!.options
    const blocked = await until(async () => (await list())?.blockedBy)
    const [, second] = await harness.deliveries(endpointId)
    expect(blocked).toMatchObject({
      deliveryId: second!.id,
      attemptCount: 1,
      error: 'responded with 500',
      waitingCount: 2,
    })
    expect(receiver.requests.map(sequenceOf)).toEqual([1, 2])
    const { delivery } = await client.skipDelivery({ deliveryId: second!.id })
    expect(delivery).toMatchObject({ status: 3, failure: 'skipped' })
    await receiver.waitFor((all) => all.length === 4)
    await harness.allCompleted(endpointId)
    expect(receiver.requests.map(sequenceOf)).toEqual([1, 2, 3, 4])
    expect((await list())?.blockedBy).toBeUndefined()
    await expect(client.skipDelivery({ deliveryId: second!.id })).rejects.toThrow('completed')
    const { rows } = await harness.database.durablePool.query(
      "select target_id from audit_entry where action = 'delivery.skip'",
    )
    expect(rows).toEqual([{ target_id: second!.id }])
  })

  test('may become ordered, and unordered again, with deliveries pending', async () => {
    const { client, receiver, publish, endpointId } = await setUp(
      { ordered: false },
      Array<number>(50).fill(200),
    )
    receiver.answer({ status: 500 })
    await publish(5)
    await receiver.waitFor((all) => all.length >= 5)
    await client.updateEndpoint({ endpointId, enabled: false })
    await client.updateEndpoint({ endpointId, options: { ordered: true } })
    // Attempts in progress end.
    await until(async () => {
      const leased =
        'select from webhook_delivery where endpoint_id = $1 and leased_until is not null'
      return (await harness.database.durablePool.query(leased, [endpointId])).rowCount === 0
    })
    const before = receiver.requests.length
    const pending = (await harness.deliveries(endpointId)).filter((row) => row.state === 'PENDING')
    expect(pending).toHaveLength(5)
    receiver.answer({ status: 200 })
    await client.updateEndpoint({ endpointId, enabled: true })
    await harness.allCompleted(endpointId)
    const sent = receiver.requests.slice(before).map(sequenceOf)
    expect(sent).toEqual([...sent].sort((one, other) => one - other))
    expect(new Set(sent).size).toBe(5)

    receiver.answer((request) => ({ status: sequenceOf(request) === 6 ? 500 : 200 }))
    await publish(3)
    await receiver.waitFor((all) => all.some((request) => sequenceOf(request) === 6))
    await client.updateEndpoint({ endpointId, options: { ordered: false } })
    await receiver.waitFor((all) => all.some((request) => sequenceOf(request) === 8))
  })

  test('is sent again what it acknowledged or what was skipped, however long ago', async () => {
    const { client, receiver, publish, endpointId } = await setUp()
    await publish(3)
    await harness.allCompleted(endpointId)
    const [first, second] = await harness.deliveries(endpointId)
    // The log moves on, so that claims move the place where they look from.
    const other = await harness.business()
    await harness.publish(...payments(other, 600))
    await publish(1)
    await receiver.waitFor((all) => all.length === 4)
    await harness.allCompleted(endpointId)
    const { rows } = await harness.database.durablePool.query(
      'select ordered_from::int as "from" from webhook_endpoint where id = $1',
      [endpointId],
    )
    expect(rows[0].from).toBeGreaterThan(500)
    await client.redeliver({ deliveryId: first!.id })
    await receiver.waitFor((all) => all.length === 5)
    await harness.allCompleted(endpointId)
    await harness.database.durablePool.query(
      `update webhook_delivery set state = 'FAILED', failure = 'test' where id = $1`,
      [second!.id],
    )
    await publish(1)
    await receiver.waitFor((all) => all.length === 6)
    const { recovered } = await client.recover({ endpointId, since: { seconds: 0n } })
    expect(recovered).toBe(1n)
    await receiver.waitFor((all) => all.length === 7)
    expect(receiver.requests.map(sequenceOf)).toEqual([1, 2, 3, 4, 1, 5, 2])
  })

  test('finds what is pending after any number of completed deliveries, some thousands at a time', async () => {
    const { durablePool } = harness.database
    const webhooks = openWebhooks(harness.database)
    harness.closing(() => webhooks.stop())
    const businessId = await harness.business()
    const { endpoint } = await clientOf(webhooks).createEndpoint({
      ...{ businessId, url: 'http://127.0.0.1:9/', options: { ordered: true } },
    })
    const endpointId = endpoint!.id
    const from = async () =>
      (
        await durablePool.query('select ordered_from from webhook_endpoint where id = $1', [
          endpointId,
        ])
      ).rows[0].ordered_from as string
    const first = BigInt(await from())
    const count = 2 * SCANNED_MAX + 5_000
    await durablePool.query(
      `insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims,
          created_at, completed_at)
        select 'dlv_many_' || n, $1, $2::int8 + n, case when n < $3 then 'DELIVERED' else 'PENDING' end, 1,
          now() - interval '1 minute', 1, now(), case when n < $3 then now() end
        from generate_series(1, $3::int) n`,
      [endpointId, first, count],
    )
    const terms = { nowMs: Date.now(), leaseMs: 60_000 }
    const claim = () => claimOrdered(durablePool, [endpointId], terms)
    for (const turn of [1, 2]) {
      expect(await claim()).toEqual({ claims: [], lost: [] })
      expect(BigInt(await from()) - first).toBeGreaterThanOrEqual(BigInt(turn * (SCANNED_MAX - 1)))
    }
    // An update of the endpoint in progress delays no claim.
    const updating = await durablePool.connect()
    try {
      await updating.query('begin')
      await updating.query('select from webhook_endpoint where id = $1 for update', [endpointId])
      // Its event is not in the log: it is found, and lost.
      expect(await claim()).toMatchObject({ claims: [], lost: [{ id: `dlv_many_${count}` }] })
    } finally {
      await updating.query('rollback')
      updating.release()
    }
  })

  test('is claimed at the same cost, however much waits', async () => {
    const { durablePool } = harness.database
    const webhooks = openWebhooks(harness.database)
    harness.closing(() => webhooks.stop())
    const businessId = await harness.business()
    const { endpoint } = await clientOf(webhooks).createEndpoint({
      businessId,
      url: 'http://127.0.0.1:9/',
      options: { ordered: true },
    })
    const endpointId = endpoint!.id
    await harness.publish(...payments(businessId, 3_000))
    const dispatch = () =>
      dispatchEvents(durablePool, {
        ...{ idPrefix: 'dlv_0000000000', eventsMax: 1_000, leaseMs: 60_000, nowMs: Date.now() },
        ...{ allotments: [{ endpointId, share: 10 }], pausedBeforeMs: 0, recentFrom: 0n },
      })
    const dispatched = []
    do dispatched.push(await dispatch())
    while (dispatched.at(-1)!.events > 0)
    // None is claimed as it is made.
    expect(dispatched.flatMap(({ claimed }) => claimed)).toEqual([])
    await durablePool.query('vacuum (analyze) webhook_delivery')
    const terms = { nowMs: Date.now() + 1_000, leaseMs: 60_000 }
    const plans = await explain(harness.url, async (explained) => {
      const { claims } = await claimOrdered(explained, [endpointId], terms)
      expect(claims.map((claim) => claim.entry.businessSequence)).toEqual([1n])
      // While it is leased, nothing is claimed.
      expect((await claimOrdered(explained, [endpointId], terms)).claims).toEqual([])
    })
    const reads = plans
      .flatMap((plan) => [...nodesOf(plan)])
      .filter((node) => /^webhook_delivery/.test(String(node['Relation Name'])))
      .map((node) => Number(node['Actual Rows']))
    expect(reads.length).toBeGreaterThan(0)
    expect(Math.max(...reads)).toBeLessThanOrEqual(2)
  })
})
