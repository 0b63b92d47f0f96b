import { beforeAll, expect, test } from 'vitest'
import { readLogState } from '../../src/events/log-state.ts'
import { useDatabase } from '../support/database.ts'
import { changeSequencer, cutPartitions, publishEvents, runRetention } from '../support/events.ts'

const db = useDatabase()

/** The last position of a row of ticks of which one stays. */
const LAST = 2n ** 16n - 1n

const positionsOfTicks = async () => {
  const { rows } = await db.database.durablePool.query(
    'select position from sequencer_tick order by tick',
  )
  return rows.map(({ position }) => BigInt(position))
}

beforeAll(async () => {
  const { durablePool } = db.database
  await changeSequencer(durablePool, 'position = $1', [LAST - 5n])
  await durablePool.query('update event_retention set floor = $1, archived = $1', [LAST - 5n])
})

test('of each 65,536 positions a tick stays, by which the outbox is dropped while newer events are kept', async () => {
  const { durablePool } = db.database
  await publishEvents(durablePool, 1)
  await publishEvents(durablePool, 2)
  await cutPartitions(durablePool)
  for (const count of [10, 2, 2]) {
    await publishEvents(durablePool, count)
  }
  const { position: end } = (await readLogState(durablePool)).end
  expect(await positionsOfTicks()).toEqual([LAST - 2n, end])

  const { dropped } = await runRetention(durablePool, LAST - 2n)
  expect(dropped.map((name) => name.replace(/_\d+$/, ''))).toEqual(['outbox', 'event_log'])
  expect(await positionsOfTicks()).toEqual([LAST - 2n, end])
  expect((await readLogState(durablePool)).floor).toBe(LAST - 2n)

  await runRetention(durablePool, end)
  expect(await positionsOfTicks()).toEqual([end])
})
