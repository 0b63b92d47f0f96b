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
  const { rows } = await db.database.durablePool.query(
    'select position from sequencer_tick order by tick',
  )
  return rows.map(({ position }) => BigInt(position))
}

/** Runs the retention two days later. @param upTo the last position that has its deliveries */
const expire = (upTo: bigint) =>
  createRetention(
    createTestRuntime(db.database, { clock: { now: () => Date.now() + 2 * DAY_MS } }),
    { retentionDays: 1, dispatchedUpTo: async () => upTo },
  ).run()

beforeAll(async () => {
  const { durablePool } = db.database
  await changeSequencer(durablePool, 'position = $1', [LAST - 5n])
  await durablePool.query('update event_retention set floor = $1, archived = $1', [LAST - 5n])
})

test('of each 65,536 positions a tick stays, by which the outbox is dropped while newer events are kept', async () => {
  const { durablePool } = db.database
  await writeEvents(durablePool, 1)
  await sequence(durablePool)
  await writeEvents(durablePool, 2)
  await sequence(durablePool)
  await cutPartitions(durablePool)
  for (const count of [10, 2, 2]) {
    await writeEvents(durablePool, count)
    await sequence(durablePool)
  }
  const { position: end } = (await readLogState(durablePool)).end
  expect(await positionsOfTicks()).toEqual([LAST - 2n, end])

  const { dropped } = await expire(LAST - 2n)
  expect(dropped.map((name) => name.replace(/_\d+$/, ''))).toEqual(['outbox', 'event_log'])
  expect(await positionsOfTicks()).toEqual([LAST - 2n, end])
  expect((await readLogState(durablePool)).floor).toBe(LAST - 2n)

  await expire(end)
  expect(await positionsOfTicks()).toEqual([end])
})
