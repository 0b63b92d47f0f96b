import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { registerSettlementMetrics } from '../../src/settlement/overdue.ts'
import { useDatabase } from '../support/database.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { testClock } from './fixture.ts'

const db = useDatabase()
const NOW_MS = Date.UTC(2026, 10, 20, 11)

async function lag(): Promise<string | undefined> {
  const registry = new Registry()
  registerSettlementMetrics(
    createTestRuntime(db.database, { clock: testClock(NOW_MS), metrics: registry }),
  )
  return /^inflow_settlement_lag_seconds (\S+)$/m.exec(await registry.metrics())?.[1]
}

const due = (businessId: string, live: boolean, dueAtMs: number) =>
  db.database.durablePool.query(
    'insert into settlement_due (business_id, live, due_at, next_at, failures) values ($1, $2, $3, $3, 0)',
    [businessId, live, new Date(dueAtMs)],
  )

test('the settlement lag is that of the live balance which has been due for longest', async () => {
  expect(await lag()).toBe('0')
  await due('biz_later', true, NOW_MS + 60_000)
  await due('biz_test', false, NOW_MS - 900_000)
  expect(await lag()).toBe('0')
  await due('biz_a', true, NOW_MS - 30_000)
  await due('biz_b', true, NOW_MS - 45_000)
  expect(await lag()).toBe('45')
})
