import pg from 'pg'
import { expect, test } from 'vitest'
import { createExchange, createShareBuckets } from '../../../src/auth/rate-limits/exchange.ts'
import { SharedBucket } from '../../../src/auth/rate-limits/token-bucket.ts'
import { useDatabase } from '../../support/database.ts'
import { startProxy } from '../../support/proxy.ts'
import { createTestRuntime } from '../../support/runtime.ts'
import { waitFor } from '../../support/wait-for.ts'

const db = useDatabase(2)

/** So slow that no token comes back while a test runs. */
const limit = { perSecond: 0.001, burst: 1_000 }

/** Spends from the shared bucket as an instance does. @returns its level, in whole tokens */
async function spend(name: string, spent: number): Promise<number> {
  const levels = await createShareBuckets(db.database.durablePool)([{ name, spent, limit }])
  return Math.floor(levels.get(name) as number)
}

const age = (name: string, interval: string) =>
  db.database.durablePool.query('update rate_bucket set at = at - $2::interval where name = $1', [
    name,
    interval,
  ])

test('what instances spend is summed, down to one burst below zero', async () => {
  expect(await spend('sum', 300)).toBe(700)
  expect(await spend('sum', 300)).toBe(400)
  expect(await spend('other', 1)).toBe(999)
  expect(await spend('sum', 900)).toBe(-500)
  expect(await spend('sum', 900)).toBe(-1_000)
})

test('a bucket refills at its rate up to its burst, and not when a clock was set back', async () => {
  await spend('refill', 500)
  await age('refill', '100000 s')
  expect(await spend('refill', 0)).toBe(600)
  await age('refill', '10000000 s')
  expect(await spend('refill', 0)).toBe(1_000)
  await spend('refill', 500)
  await age('refill', '-1000000 s')
  expect(await spend('refill', 0)).toBe(500)
  await age('refill', '100000 s')
  expect(await spend('refill', 0)).toBe(600)
})

test('what was spent while the database was unavailable is charged once it is available again', async () => {
  const wire = await startProxy(db.url)
  const pool = new pg.Pool({ connectionString: wire.through, max: 1 })
  // The connection that is cut.
  pool.on('error', () => undefined)
  const failed = Promise.withResolvers<void>()
  const share = createShareBuckets(pool)
  const runtime = createTestRuntime({}, { clock: { now: () => 0 } })
  const exchange = createExchange(runtime, (spendings) =>
    share(spendings).catch((error: unknown) => {
      failed.resolve()
      throw error
    }),
  )
  const bucket = new SharedBucket('away', limit, 0, exchange.report)
  try {
    await wire.block()
    for (let each = 0; each < 300; each++) expect(bucket.take(0)).toBe(true)
    await failed.promise
    // Nothing more is spent: that alone would start another exchange.
    await wire.unblock()
    await waitFor(async () => {
      const { rows } = await db.database.durablePool.query(
        "select round(tokens)::int as tokens from rate_bucket where name = 'away'",
      )
      expect(rows).toEqual([{ tokens: 700 }])
    })
    // Another instance learns of it with its first exchange.
    expect(await spend('away', 10)).toBe(690)
  } finally {
    await exchange.stop()
    await pool.end()
  }
})
