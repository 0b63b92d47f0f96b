import { expect, onTestFinished, test } from 'vitest'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { createNotifications } from '../../src/notifications/notifications.ts'
import { finishNotifications, insertNotifications } from '../../src/notifications/store.ts'
import { until } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { MASTER_KEY } from '../support/service.ts'

const db = useDatabase()

const DAY_MS = 86_400_000
const NOW_MS = 1_000 * DAY_MS

/** Stores a notification received so many days ago. */
async function store(
  id: string,
  days: number,
  state: 'PROCESSED' | 'MANUAL_REVIEW' | undefined,
): Promise<void> {
  const { durablePool } = db.database
  const receivedAtMs = NOW_MS - days * DAY_MS
  const row = {
    id,
    bank: '9PSB',
    bodyDigest: Buffer.from(id),
    bankKey: id,
    accountNumber: '',
    sessionId: '',
    amountMinor: 0n,
  } as const
  const rawEncrypted = Buffer.from('encrypted')
  await insertNotifications(durablePool, [
    { ...row, receivedAtMs, rawEncrypted, nextTryAtMs: receivedAtMs },
  ])
  if (!state) return
  const processed = { state, outcome: 'IGNORED', cause: '', nextTryAtMs: undefined } as const
  await finishNotifications(durablePool, [{ ...processed, id, tries: 1 }])
}

const unused = () => Promise.reject(new Error('not to be called'))

test('deletes processed notifications after the retention and keeps the others', async () => {
  await store('young', 89, 'PROCESSED')
  await store('old', 91, 'PROCESSED')
  await store('old-manual-review', 91, 'MANUAL_REVIEW')
  await store('old-pending', 91, undefined)
  const notifications = createNotifications(
    createTestRuntime(db.database, { clock: { now: () => NOW_MS } }),
    {
      live: new Map(),
      encrypter: createEncrypter(MASTER_KEY),
      assignSession: unused,
      isReturned: unused,
      recordPayment: unused,
      reversePayment: undefined,
      retentionDays: 90,
      observe: () => undefined,
    },
  )
  onTestFinished(notifications.stop)
  notifications.start()
  const ids = await until(
    async () => (await db.database.durablePool.query('select id from bank_notification')).rows,
    (rows) => rows.length < 4,
  )
  expect(ids.map((row) => row.id).sort()).toEqual(['old-manual-review', 'old-pending', 'young'])
})
