import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { registerPendingMetrics } from '../../src/notifications/held-notifications.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { createTestRuntime } from '../support/runtime.ts'

const db = useDatabase()

let count = 0

/** Stores a notification that arrived some seconds ago. */
async function receive(bank: string, state: string, ageSeconds: number): Promise<void> {
  count += 1
  await tamper(
    db.database.durablePool,
    `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key, state, outcome,
        cause, tries, next_try_at)
      values ($1, $2, $3, now() - make_interval(secs => $4), '', '', $5, 'RETRY', '', 1,
        case when $5 = 'PENDING' then now() + interval '1 hour' end)`,
    [`ntf_${count}`, bank, Buffer.from(`${count}`), ageSeconds, state],
  )
}

test('pending notifications are counted by bank, with the age of the oldest', async () => {
  await receive('9PSB', 'PENDING', 1_000)
  await receive('9PSB', 'PENDING', 200)
  await receive('9PSB', 'PROCESSED', 90_000)
  await receive('PALMPAY', 'PENDING', 5_000)
  await receive('PALMPAY', 'MANUAL_REVIEW', 90_000)
  const registry = new Registry()
  registerPendingMetrics(createTestRuntime(db.database, { metrics: registry }))
  const lines = (await registry.metrics()).split('\n')
  const values = (name: string) =>
    Object.fromEntries(
      lines.flatMap((line) => {
        const [, bank, value] = new RegExp(`^${name}\\{bank="(\\w+)"\\} (\\S+)$`).exec(line) ?? []
        return bank === undefined ? [] : [[bank, Math.round(Number(value) / 100) || Number(value)]]
      }),
    )
  expect(values('inflow_bank_notifications_pending')).toEqual({
    ...{ '9PSB': 2, PALMPAY: 1, PROVIDUS: 0, SAFEHAVEN: 0 },
  })
  expect(values('inflow_bank_oldest_pending_notification_seconds')).toEqual({
    ...{ '9PSB': 10, PALMPAY: 50, PROVIDUS: 0, SAFEHAVEN: 0 },
  })
})
