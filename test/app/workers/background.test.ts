import pino from 'pino'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type Service, startService } from '../../../src/app/start-service.ts'
import { readConfig } from '../../../src/config/config.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { useDatabase } from '../../support/database.ts'
import { writeEvents } from '../../support/events.ts'
import { MASTER_KEY } from '../../support/service.ts'
import { waitFor, waitUntil } from '../../support/wait-for.ts'

const db = useDatabase()
const messages: string[] = []
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
    channel: {
      onCommit: () => void messages.push('committed'),
      deliveriesDue: () => void messages.push('deliveries-due'),
      concurrencyOf: (_endpointId, concurrency) => concurrency,
      exposition: (own) => own,
    },
  })
})

afterAll(() => worker?.close())

async function sequencedCount(): Promise<number> {
  const { rows } = await db.database.pool.query('select count(*)::int as count from event_log')
  return rows[0].count
}

test('a worker sequences no events before it starts the background work', async () => {
  await writeEvents(db.database.pool, 3)
  // A message about a commit does nothing in a worker that does not do the background work.
  worker.onCommit()
  // The webhook sender polls as often as a running sequencer would.
  const queries = vi.spyOn(db.database.relaxedPool, 'query')
  await waitUntil(() => queries.mock.calls.length > 2)
  expect(await sequencedCount()).toBe(0)

  worker.startBackground()
  worker.startBackground()
  await waitFor(async () => expect(await sequencedCount()).toBe(3))
  await writeEvents(db.database.pool, 2)
  worker.onCommit()
  await waitFor(async () => expect(await sequencedCount()).toBe(5))
})
