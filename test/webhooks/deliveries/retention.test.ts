import { expect, onTestFinished, test } from 'vitest'
import { DAY_MS } from '../../../src/core/durations.ts'
import { dropPartition, listPartitions } from '../../../src/postgres/partitions.ts'
import { dispatchedUpTo } from '../../../src/webhooks/deliveries/backlog.ts'
import { waitFor, waitUntil } from '../../support/wait-for.ts'
import { paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, movableClock, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

/** An endpoint that is deleted after a delivery. */
async function deletedEndpoint() {
  const clock = movableClock()
  const webhooks = harness.started({ clock })
  const peer = await harness.receiver()
  const business = await harness.business()
  const { id } = await addEndpoint(webhooks, business, peer.url)
  await harness.publish(paymentEvent(business))
  await harness.allCompleted(id)
  await clientOf(webhooks).deleteEndpoint({ endpointId: id })
  return { clock, webhooks, id }
}

test('a deleted endpoint is purged once its deliveries are dropped', async () => {
  const { clock, webhooks, id } = await deletedEndpoint()
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
  // A run leaves a partition that others use to a later one.
  await waitFor(async () => {
    await webhooks.retention.run()
    expect(await left()).toEqual([{ endpoints: 0, secrets: 0 }])
  })
})

test('deleted endpoints that never had a delivery are purged after an hour, however many', async () => {
  const clock = movableClock()
  const webhooks = harness.started({ clock })
  const { durablePool } = harness.database
  const business = await harness.business()
  const { id } = await addEndpoint(webhooks, business, 'http://127.0.0.1:1')
  await clientOf(webhooks).deleteEndpoint({ endpointId: id })
  await durablePool.query(
    `insert into webhook_endpoint
      select (jsonb_populate_record(e, jsonb_build_object('id', 'ep_' || n))).*
      from webhook_endpoint e, generate_series(1, 2500) n where e.id = $1`,
    [id],
  )
  const left = async () =>
    (await durablePool.query('select from webhook_endpoint where business_id = $1', [business]))
      .rowCount
  await webhooks.retention.run()
  expect(await left()).toBe(2_501)
  clock.advance(61 * 60_000)
  await webhooks.retention.run()
  expect(await left()).toBe(0)
})

test('partitions are dropped even if a step of the run fails', async () => {
  const { durablePool } = harness.database
  const { clock, webhooks, id } = await deletedEndpoint()
  await harness.cut()
  clock.advance(31 * DAY_MS)
  // Purging, the second step, fails at the endpoint.
  await durablePool.query(`
    create function refuse_purge() returns trigger language plpgsql as
      $$ begin raise exception 'not purged'; end $$;
    create trigger refuse_purge before delete on webhook_endpoint
      for each row execute function refuse_purge()`)
  onTestFinished(async () => {
    await durablePool.query('drop function refuse_purge() cascade')
  })
  await waitFor(async () => {
    await expect(webhooks.retention.run()).rejects.toThrow('not purged')
    const text = 'select from webhook_delivery where endpoint_id = $1'
    expect((await durablePool.query(text, [id])).rowCount).toBe(0)
  })
})

// Last, as it cuts partitions ahead.
test('partitions of events that are not dispatched yet are kept', async () => {
  const { durablePool } = harness.database
  harness.started()
  await waitUntil(
    async () => (await dispatchedUpTo(durablePool)) === (await harness.lastPosition()),
  )
  await harness.cut(1n)
  const [part] = (await listPartitions(durablePool, 'webhook_delivery')).slice(-2)
  // It gives up while others use the table.
  const drop = (table: string, name: string) =>
    waitFor(() => dropPartition(durablePool, table, name))
  expect(await drop('webhook_delivery', part!.name)).toBe(false)
  expect(await drop('webhook_attempt', part!.name.replace('delivery', 'attempt'))).toBe(false)
})
