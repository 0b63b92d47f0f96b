import { expect, test } from 'vitest'
import { dropPartition, listPartitions } from '../../../src/postgres/partitions/partitions.ts'
import { dispatchedUpTo } from '../../../src/webhooks/deliveries/backlog.ts'
import { paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, movableClock, until, useWebhooks } from '../harness.ts'

const DAY_MS = 86_400_000

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

test('deliveries are dropped with their attempts once all of their partition are old enough', async () => {
  const clock = movableClock()
  const webhooks = harness.started({ clock, retentionDays: 30, retryScheduleMs: [10] })
  const [well, dead] = [await harness.receiver(), await harness.receiver()]
  dead.answer({ status: 500 })
  const business = await harness.business()
  const kinds = ['PAYMENT_NOTIFICATION']
  const { id } = await addEndpoint(webhooks, business, well.url, { kinds })
  const { id: deadId } = await addEndpoint(webhooks, business, dead.url, { kinds })
  const publish = async (count: number) => {
    await harness.publish(...Array.from({ length: count }, () => paymentEvent(business)))
    await Promise.all([id, deadId].map(harness.allCompleted))
    await harness.cut()
  }
  const run = () => webhooks.retention.run()
  await publish(5)
  expect(await countAttempts()).toBe(15)

  clock.advance(29 * DAY_MS)
  expect(await run()).toEqual({ expired: 0, dropped: 0, inUse: false })
  await publish(1)
  clock.advance(2 * DAY_MS)
  const reader = await harness.database.durablePool.connect()
  await reader.query('begin')
  await reader.query('select from webhook_delivery limit 1')
  expect(await run()).toEqual({ expired: 0, dropped: 0, inUse: true })
  await reader.query('rollback')
  reader.release()
  expect(await run()).toEqual({ expired: 0, dropped: 1, inUse: false })
  expect(await harness.deliveries(id)).toHaveLength(1)
  expect(await harness.deliveries(deadId)).toHaveLength(1)
  expect(await countAttempts()).toBe(3)
  clock.advance(30 * DAY_MS)
  expect(await run()).toEqual({ expired: 0, dropped: 1, inUse: false })
  expect(await countAttempts()).toBe(0)
})

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
