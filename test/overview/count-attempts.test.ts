import fc from 'fast-check'
import { expect, test } from 'vitest'
import { HOUR_MS } from '../../src/core/durations.ts'
import {
  BUCKETS,
  bucketOf,
  createAttemptCounter,
  deleteOldHours,
  type EndedAttempt,
  quantileMs,
  readWebhookHours,
} from '../../src/webhooks/count-attempts.ts'
import { useDatabase } from '../support/database.ts'
import { createTestRuntime } from '../support/runtime.ts'

const START_MS = Date.UTC(2026, 10, 20, 11)
const db = useDatabase()

const counter = () =>
  createAttemptCounter(createTestRuntime(db.database, { clock: { now: () => START_MS } }), {})

const attempt = (overrides: Partial<EndedAttempt> = {}): EndedAttempt => ({
  businessId: 'biz_1',
  live: true,
  state: 'DELIVERED',
  endedAtMs: START_MS + 10,
  occurredAtMs: START_MS - 90,
  ...overrides,
})

const read = (businessIds: readonly string[], live = true) =>
  readWebhookHours(db.database.durablePool, businessIds, live, [
    { fromMs: START_MS - HOUR_MS, toMs: START_MS + HOUR_MS },
  ])

test('old hours are deleted', async () => {
  const { durablePool } = db.database
  const old = counter()
  old.count(attempt({ businessId: 'biz_old', endedAtMs: START_MS - HOUR_MS }))
  await old.stop()
  const before = await read(['biz_old'])
  expect(before).toHaveLength(1)
  await deleteOldHours(durablePool, START_MS, 1_000)
  expect(await read(['biz_old'])).toEqual([])
})

const DAYS_21_MS = 21 * 86_400_000

test('a quantile is within a fifth of the exact one', () => {
  const delays = fc.array(fc.integer({ min: 1, max: DAYS_21_MS }), { minLength: 1, maxLength: 200 })
  fc.assert(
    fc.property(delays, fc.double({ min: 0.01, max: 1, noNaN: true }), (values, part) => {
      const counts = new Array<number>(BUCKETS).fill(0)
      for (const value of values) counts[bucketOf(value)]! += 1
      const sorted = [...values].sort((a, b) => a - b)
      const exact = sorted[Math.ceil(sorted.length * part) - 1]!
      const found = quantileMs(counts, part)
      expect(Math.abs(found - exact)).toBeLessThanOrEqual(0.5 + exact * 0.19)
    }),
  )
})

test('nothing counted has no delay, and no delay is too long to count', () => {
  expect(quantileMs(new Array(BUCKETS).fill(0), 0.95)).toBe(0)
  expect(bucketOf(-5)).toBe(0)
  expect(bucketOf(0)).toBe(0)
  expect(bucketOf(Number.MAX_SAFE_INTEGER)).toBe(BUCKETS - 1)
})
