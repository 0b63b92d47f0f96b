import { describe, expect, test } from 'vitest'
import { claimOrdered, SCANNED_MAX } from '../../../src/webhooks/deliveries/claim-ordered.ts'
import { dispatchEvents } from '../../../src/webhooks/dispatch.ts'
import type { Webhooks } from '../../../src/webhooks/webhooks.ts'
import { nodesOf } from '../../postgres/explained-database.ts'
import { explain } from '../../support/explained-client.ts'
import type { ReceivedRequest } from '../../support/receiver.ts'
import { openWebhooks, paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

const sequenceOf = ({ rawBody }: ReceivedRequest): number => JSON.parse(rawBody).data.sequence
const payments = (businessId: string, count: number) =>
  Array.from({ length: count }, () => paymentEvent(businessId))

/** An ordered endpoint at a receiver, served by two instances. */
async function setUp() {
  const [webhooks] = [harness.started(), harness.started()]
  const receiver = await harness.receiver()
  const businessId = await harness.business()
  const endpointId = await addOrdered(webhooks, businessId, receiver.url)
  const publish = (count: number) => harness.publish(...payments(businessId, count))
  return { client: clientOf(webhooks), receiver, endpointId, publish }
}

async function addOrdered(
  webhooks: Webhooks,
  businessId: string,
  url = 'http://127.0.0.1:9/',
): Promise<string> {
  return (await addEndpoint(webhooks, businessId, url, { options: { ordered: true } })).id
}

describe('an ordered endpoint', () => {
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
    const endpointId = await addOrdered(webhooks, await harness.business())
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
    const endpointId = await addOrdered(webhooks, businessId)
    await harness.publish(...payments(businessId, 1_000))
    const dispatched = await dispatchEvents(durablePool, {
      ...{ idPrefix: 'dlv_0000000000', eventsMax: 2_000, leaseMs: 60_000, nowMs: Date.now() },
      ...{ allotments: [{ endpointId, share: 10 }], pausedBeforeMs: 0, recentFrom: 0n },
    })
    // None is claimed as it is made.
    expect(dispatched).toMatchObject({ deliveries: 1_000, claimed: [] })
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
