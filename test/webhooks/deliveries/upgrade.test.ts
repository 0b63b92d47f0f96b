import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Database, migrate, openDatabase } from '../../../src/postgres/orm.ts'
import { encryptSecret } from '../../../src/webhooks/endpoints/signing-secret.ts'
import { useDatabase } from '../../support/database.ts'
import { startReceiver } from '../../support/receiver.ts'
import { encrypter, logEvents, openWebhooks, paymentEvent, until } from '../fixture.ts'
import { clientOf } from '../harness.ts'

const db = useDatabase(2)
let old: Database
let name: string

beforeAll(async () => {
  const url = new URL(db.url)
  url.pathname = `${url.pathname}_old`
  name = url.pathname.slice(1)
  await db.database.pool.query(`create database ${name} template template0`)
  old = await openDatabase(url.href, 4)
})

afterAll(async () => {
  await old?.close()
  if (name) await db.database.pool.query(`drop database if exists ${name} with (force)`)
})

/** The claim statement of the earlier release. */
const EARLIER_CLAIM = `update webhook_delivery set due_at = now() + interval '1 minute',
  fence = fence + 1 where state = 'PENDING' and due_at <= now()`

/** Adds an event and its delivery as the earlier release stored it. */
async function addDelivery(
  id: string,
  state: string,
  { attempts, dueInMs = 0 }: { attempts: number; dueInMs?: number },
): Promise<void> {
  const event = paymentEvent('biz_1')
  await logEvents(old, [event])
  await old.pool.query(
    `insert into webhook_delivery
        (id, endpoint_id, position, state, attempts, due_at, fence, created_at, completed_at)
      select $1, 'ep_1', position, $2, $3, now() + $4 * interval '1 ms', $3, now(),
        case when $2 <> 'PENDING' then now() end from event_log where event_id = $5`,
    [id, state, attempts, dueInMs, event.id],
  )
  await old.pool.query(
    `insert into webhook_attempt
        (delivery_id, number, started_at, latency_ms, status, response_body, error)
      select $1, number, now(), 7, 503, 'later', 'responded with 503'
      from generate_series(1, $2) number`,
    [id, attempts],
  )
}

test('deliveries pending before the upgrade are sent, with their earlier attempts', async () => {
  const receiver = await startReceiver()
  await old.orm.migrator.up({ to: 'Migration20261121070000_settlement' })
  await old.pool.query(`insert into business (id, name, alias, created_at)
    values ('biz_1', 'A', 'A', now())`)
  await old.pool.query(
    `insert into webhook_endpoint (id, business_id, live, url, kinds, description, concurrency,
        after_position, created_at) values ('ep_1', 'biz_1', true, $1, '{}', '', 10, 0, now())`,
    [receiver.url],
  )
  await old.pool.query(
    `insert into webhook_secret (endpoint_id, number, secret_encrypted, created_at)
      values ('ep_1', 1, $1, now())`,
    [encryptSecret(encrypter, 'ep_1', `whsec_${Buffer.alloc(32).toString('base64')}`)],
  )
  await addDelivery('dlv_done', 'DELIVERED', { attempts: 2 })
  await addDelivery('dlv_due', 'PENDING', { attempts: 0 })
  await addDelivery('dlv_retry', 'PENDING', { attempts: 2 })
  await addDelivery('dlv_leased', 'PENDING', { attempts: 0, dueInMs: 2_000 })
  await old.pool.query('update webhook_dispatcher set position = 100')

  expect(await migrate(old)).toContain('Migration20261121100000_webhook_queue')
  await expect(old.pool.query(EARLIER_CLAIM)).rejects.toThrow('"fence" does not exist')

  const webhooks = openWebhooks(old)
  const client = clientOf(webhooks)
  const shown = async (deliveryId: string) => {
    const { delivery, attempts } = await client.getDelivery({ deliveryId })
    expect(delivery?.latestAttempt).toEqual(attempts.at(-1))
    return attempts.map(({ number, statusCode }) => [number, statusCode])
  }
  expect(await shown('dlv_done')).toEqual([
    [1, 503],
    [2, 503],
  ])
  expect(await shown('dlv_due')).toEqual([])
  const startedAtMs = Date.now()
  webhooks.start()
  await receiver.waitFor((requests) => requests.length === 3)
  expect(receiver.requests[2]?.at).toBeGreaterThan(startedAtMs + 500)
  await until(async () => {
    const { rows } = await old.pool.query(`select from webhook_delivery where state = 'PENDING'`)
    return rows.length === 0
  })
  expect(await shown('dlv_due')).toEqual([[1, 200]])
  expect(await shown('dlv_leased')).toEqual([[1, 200]])
  expect(await shown('dlv_retry')).toEqual([
    [1, 503],
    [2, 503],
    [3, 200],
  ])
  // A redelivered one continues the numbers of its earlier attempts.
  await client.redeliver({ deliveryId: 'dlv_done' })
  await until(async () => (await shown('dlv_done')).length === 3)
  await webhooks.stop()
  await receiver.close()
}, 30_000)
