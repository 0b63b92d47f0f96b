import { describe, expect, test } from 'vitest'
import { claimOrdered, SCANNED_MAX } from '../../../src/webhooks/deliveries/claim-ordered.ts'
import type { Webhooks } from '../../../src/webhooks/webhooks.ts'
import { withOpenTransaction } from '../../support/database.ts'
import { explain } from '../../support/explained-client.ts'
import { dispatchNow, paymentEvent } from '../fixture.ts'
import { addEndpoint, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

const payments = (businessId: string, count: number) =>
  Array.from({ length: count }, () => paymentEvent(businessId))

async function addOrdered(
  webhooks: Webhooks,
  businessId: string,
  url = 'http://127.0.0.1:9/',
): Promise<string> {
  return (await addEndpoint(webhooks, businessId, url, { options: { ordered: true } })).id
}

describe('an ordered endpoint', () => {
  test('finds what is pending after any number of completed deliveries, some thousands at a time', async () => {
    const { durablePool } = harness.database
    const webhooks = harness.idle()
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
    await withOpenTransaction(durablePool, async (updating) => {
      await updating.query('select from webhook_endpoint where id = $1 for update', [endpointId])
      // Its event is not in the log: it is found, and lost.
      expect(await claim()).toMatchObject({ claims: [], lost: [{ id: `dlv_many_${count}` }] })
    })
  })

  test('is claimed at the same cost, however much waits', async () => {
    const { durablePool } = harness.database
    const webhooks = harness.idle()
    const businessId = await harness.business()
    const endpointId = await addOrdered(webhooks, businessId)
    await harness.publish(...payments(businessId, 1_000))
    const allotments = [{ endpointId, share: 10 }]
    const dispatched = await dispatchNow(durablePool, { eventsMax: 2_000, allotments })
    // None is claimed as it is made.
    expect(dispatched).toMatchObject({ deliveries: 1_000, claimed: [] })
    await durablePool.query('vacuum (analyze) webhook_delivery')
    const terms = { nowMs: Date.now() + 1_000, leaseMs: 60_000 }
    const nodes = await explain(harness.url, async (explained) => {
      const { claims } = await claimOrdered(explained, [endpointId], terms)
      expect(claims.map((claim) => claim.entry.businessSequence)).toEqual([1n])
      // While it is leased, nothing is claimed.
      expect((await claimOrdered(explained, [endpointId], terms)).claims).toEqual([])
    })
    const reads = nodes
      .filter((node) => /^webhook_delivery/.test(String(node['Relation Name'])))
      .map((node) => Number(node['Actual Rows']))
    expect(reads.length).toBeGreaterThan(0)
    expect(Math.max(...reads)).toBeLessThanOrEqual(2)
  })
})
