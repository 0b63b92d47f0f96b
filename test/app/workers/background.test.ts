import pino from 'pino'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type Service, startService } from '../../../src/app/start-service.ts'
import { readConfig } from '../../../src/config/config.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { useDatabase } from '../../support/database.ts'
import { writeEvents } from '../../support/events.ts'
import { MASTER_KEY } from '../../support/service.ts'

const db = useDatabase()
const told: string[] = []
let worker: Service

beforeAll(async () => {
  worker = await startService({
    config: readConfig({ HTTP_PORT: '0', GRPC_PORT: '0', WORKERS: '2' }),
    database: db.database,
    masterKey: MASTER_KEY,
    adminToken: undefined,
    clock: systemClock,
    log: pino({ level: 'silent' }),
    localWebhooks: true,
    link: {
      onCommit: () => void told.push('published'),
      deliveriesDue: () => void told.push('deliveries'),
      concurrencyOf: (_endpointId, concurrency) => concurrency,
      exposition: (own) => own,
    },
  })
})

afterAll(() => worker?.close())

async function numbered(): Promise<number> {
  const { rows } = await db.database.pool.query('select count(*)::int as count from event_log')
  return rows[0].count
}

test('a worker numbers no events before it is told to, and then what is there already', async () => {
  await writeEvents(db.database.pool, 3)
  // Another worker’s word reaches one that has not got the work, or not any more: it does nothing.
  worker.onCommit()
  // As often as the sequencer would have looked by itself, the sender of webhooks does.
  const walks = vi.spyOn(db.database.relaxedPool, 'query')
  await vi.waitUntil(() => walks.mock.calls.length > 2, 10_000)
  expect(await numbered()).toBe(0)

  worker.startBackground()
  worker.startBackground()
  await vi.waitFor(async () => expect(await numbered()).toBe(3))
  await writeEvents(db.database.pool, 2)
  worker.onCommit()
  await vi.waitFor(async () => expect(await numbered()).toBe(5), 900)
})
