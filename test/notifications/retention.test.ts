import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { createNotifications } from '../../src/notifications/notifications.ts'
import { finishProcessing, keepNotification } from '../../src/notifications/store.ts'
import { until } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { MASTER_KEY } from '../support/service.ts'

const db = useDatabase()

const DAY_MS = 86_400_000
const NOW_MS = 1_000 * DAY_MS

/** A notification that came so many days ago. */
async function keep(id: string, days: number, state: 'DONE' | 'HELD' | undefined): Promise<void> {
  const { pool } = db.database
  const receivedAtMs = NOW_MS - days * DAY_MS
  await keepNotification(pool, {
    id,
    bank: '9PSB',
    bodyDigest: Buffer.from(id),
    receivedAtMs,
    sealed: Buffer.from('sealed'),
    bankKey: id,
    nextTryAtMs: receivedAtMs,
  })
  if (!state) return
  await finishProcessing(pool, id, { state, outcome: 'noise', cause: '', nextTryAtMs: undefined })
}

test('what is settled goes after the retention; what needs somebody stays', async () => {
  await keep('young', 89, 'DONE')
  await keep('old', 91, 'DONE')
  await keep('old-held', 91, 'HELD')
  await keep('old-open', 91, undefined)
  const notifications = createNotifications({
    live: new Map(),
    pool: db.database.pool,
    encrypter: createEncrypter(MASTER_KEY),
    clock: { now: () => NOW_MS },
    log: pino({ level: 'silent' }),
    recordPayment: () => Promise.reject(new Error('nothing is recorded here')),
    reversePayment: undefined,
    retentionDays: 90,
    observe: () => undefined,
  })
  onTestFinished(notifications.stop)
  notifications.start()
  const ids = await until(
    async () => (await db.database.pool.query('select id from bank_notification')).rows,
    (rows) => rows.length < 4,
  )
  expect(ids.map((row) => row.id).sort()).toEqual(['old-held', 'old-open', 'young'])
})
