import type { PoolClient } from 'pg'
import { expect, test } from 'vitest'
import { bumpEpoch } from '../../src/events/sequencer.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'

const db = useDatabase(4)

/** Writes an event, and a tick numbers it. */
async function writeAndTick(): Promise<void> {
  await writeEvents(db.database.durablePool, 1)
  await sequence(db.database.durablePool)
}

/** Runs with a writer that has written an event, and has not ended. @returns the id of its event */
async function withWriter(act: (writer: PoolClient) => Promise<void>): Promise<string> {
  const writer = await db.database.durablePool.connect()
  try {
    await writer.query('begin')
    const { rows } = await writer.query(
      `insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
        values ('evt_' || gen_random_uuid(), 'biz_slow', true, 'TEST', now(), '') returning event_id`,
    )
    await act(writer)
    return rows[0].event_id
  } finally {
    await writer.query('rollback')
    writer.release()
  }
}

/** The numbers of the outbox in the order of the log. */
async function logged(): Promise<{ readonly outbox_seq: string; readonly event_id: string }[]> {
  const { rows } = await db.database.durablePool.query(
    'select outbox_seq, event_id from event_log order by position',
  )
  return rows
}

test('a bump gives no second position to what was numbered while a writer was open', async () => {
  await writeAndTick()
  await withWriter(async (writer) => {
    for (let tick = 0; tick < 3; tick++) await writeAndTick()
    await writer.query('commit')
  })
  await writeAndTick()
  const before = await logged()
  expect(before).toHaveLength(6)
  await bumpEpoch(db.database.durablePool, SYSTEM)
  await sequence(db.database.durablePool)
  expect(await logged()).toEqual(before)
})

test('a bump numbers what a late writer has committed', async () => {
  await writeAndTick()
  const before = (await logged()).length
  const late = await withWriter(async (writer) => {
    for (let tick = 0; tick < 2; tick++) await writeAndTick()
    await writer.query('commit')
    await bumpEpoch(db.database.durablePool, SYSTEM)
  })
  const after = await logged()
  expect(after.at(-1)?.event_id).toBe(late)
  expect(after).toHaveLength(before + 3)
  await writeAndTick()
  expect(await logged()).toHaveLength(before + 4)
})
