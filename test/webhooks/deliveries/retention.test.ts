import { expect, test } from 'vitest'
import { dropPartition, listPartitions } from '../../../src/postgres/partitions/partitions.ts'
import { dispatchedUpTo } from '../../../src/webhooks/deliveries/backlog.ts'
import { paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, movableClock, until, useWebhooks } from '../harness.ts'

const DAY_MS = 86_400_000

const harness = useWebhooks()

async function lastPosition(): Promise<bigint> {
  const { rows } = await harness.database.durablePool.query(
    'select max(position) as at from event_log',
  )
  return BigInt(rows[0].at)
}

test('a deleted endpoint is purged once its deliveries are dropped', async () => {
  const clock = movableClock()
  const webhooks = harness.started({ clock })
  const peer = await harness.receiver()
  const business = await harness.business()
  const { id } = await addEndpoint(webhooks, business, peer.url)
  await harness.publish(paymentEvent(business))
  await harness.allCompleted(id)
  await clientOf(webhooks).deleteEndpoint({ endpointId: id })
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
