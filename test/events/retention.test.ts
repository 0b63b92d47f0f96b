import pino from 'pino'
import { expect, test } from 'vitest'
import { createRetention } from '../../src/events/retention.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'

const db = useDatabase(2)

const DAY_MS = 86_400_000

test('deletes the events that were logged before the retention, and no later ones', async () => {
  const { pool } = db.database
  await writeEvents(pool, 5)
  await sequence(pool)
  const nowMs = Date.now() + 10 * DAY_MS
  const loggedDaysAgo = [9, 8, 7.1, 6.9, 1]
  for (const [index, days] of loggedDaysAgo.entries()) {
    await tamper(pool, 'update event_log set logged_at = $2 where position = $1', [
      ...[index + 1, new Date(nowMs - days * DAY_MS)],
    ])
  }
  const retention = createRetention({
    pool,
    clock: { now: () => nowMs },
    log: pino({ level: 'silent' }),
    retentionDays: 7,
    deliveredUpTo: async () => 5n,
  })
  expect(await retention.run()).toBe(3)
  const { rows } = await pool.query(
    `select l.position, o.event_id is not null as stored
      from event_log l left join outbox o on o.seq = l.outbox_seq order by l.position`,
  )
  expect(rows).toEqual([
    { position: '4', stored: true },
    { position: '5', stored: true },
  ])
})
