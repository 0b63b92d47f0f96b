import { expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'

const db = useDatabase(8)

const TICK = 'select numbered, more from sequence_events(100)'

test('a tick without work takes no lock and begins no transaction', async () => {
  const { pool } = db.database
  await sequence(pool)
  const holder = await pool.connect()
  const ticking = await pool.connect()
  try {
    await holder.query('begin')
    await holder.query('select from sequencer for update')
    await ticking.query('begin')
    expect((await ticking.query(TICK)).rows).toEqual([{ numbered: 0, more: false }])
    const { rows } = await ticking.query('select pg_current_xact_id_if_assigned() as xid')
    expect(rows).toEqual([{ xid: null }])
  } finally {
    await Promise.all([holder.query('rollback'), ticking.query('rollback')])
    holder.release()
    ticking.release()
  }
})

test('ticks of many instances do not queue: all but one return at once', async () => {
  const { pool } = db.database
  const holder = await pool.connect()
  try {
    await writeEvents(pool, 3)
    await holder.query('begin')
    expect((await holder.query(TICK)).rows).toEqual([{ numbered: 3, more: false }])
    const others = await Promise.all(Array.from({ length: 6 }, () => pool.query(TICK)))
    expect(others.flatMap(({ rows }) => rows)).toEqual(
      others.map(() => ({ numbered: 0, more: null })),
    )
    await holder.query('commit')
    expect((await pool.query(TICK)).rows).toEqual([{ numbered: 0, more: false }])
  } finally {
    await holder.query('rollback')
    holder.release()
  }
})
