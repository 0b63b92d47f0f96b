import { beforeAll, expect, test } from 'vitest'
import { readLogState } from '../../src/events/log-state.ts'
import { createRetention } from '../../src/events/retention.ts'
import { useDatabase } from '../support/database.ts'
import { changeSequencer, cutPartitions, sequence, writeEvents } from '../support/events.ts'
import { createTestRuntime } from '../support/runtime.ts'

const db = useDatabase()

const DAY_MS = 86_400_000
/** The last position of a row of ticks of which one stays. */
const LAST = 2n ** 16n - 1n

const positionsOfTicks = async () => {
  const { rows } = await db.database.pool.query('select position from sequencer_tick order by tick')
  return rows.map(({ position }) => BigInt(position))
}

/** Runs the retention two days later. @param upTo the last position that has its deliveries */
const expire = (upTo: bigint) =>
  createRetention(
    createTestRuntime(db.database, { clock: { now: () => Date.now() + 2 * DAY_MS } }),
    { retentionDays: 1, dispatchedUpTo: async () => upTo },
  ).run()

beforeAll(async () => {
  const { pool } = db.database
  await changeSequencer(pool, 'position = $1', [LAST - 5n])
  await pool.query('update event_retention set floor = $1, archived = $1', [LAST - 5n])
})

test('of each 65,536 positions a tick stays, by which the outbox is dropped while newer events are kept', async () => {
  const { pool } = db.database
  await writeEvents(pool, 1)
  await sequence(pool)
  await writeEvents(pool, 2)
  await sequence(pool)
  await cutPartitions(pool)
  for (const count of [10, 2, 2]) {
    await writeEvents(pool, count)
    await sequence(pool)
  }
  const { position: end } = (await readLogState(pool)).end
  expect(await positionsOfTicks()).toEqual([LAST - 2n, end])

  const { dropped } = await expire(LAST - 2n)
  expect(dropped.map((name) => name.replace(/_\d+$/, ''))).toEqual(['outbox', 'event_log'])
  expect(await positionsOfTicks()).toEqual([LAST - 2n, end])
  expect((await readLogState(pool)).floor).toBe(LAST - 2n)

  await expire(end)
  expect(await positionsOfTicks()).toEqual([end])
})
