import type { PoolClient } from 'pg'
import { expect, test } from 'vitest'
import { bumpEpoch } from '../../src/events/sequencer.ts'
import { isRetryable } from '../../src/postgres/is-retryable.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase(8)

const TICK = 'select numbered, more from sequence_events(100)'

/** From now on, a connection gets the plans of statements inside functions, as notices. */
const EXPLAIN_NESTED = `load 'auto_explain';
  set auto_explain.log_min_duration = 0;
  set auto_explain.log_nested_statements = on;
  set auto_explain.log_level = notice`

test('a tick without work takes no lock and begins no transaction', async () => {
  const { durablePool } = db.database
  await sequence(durablePool)
  const holder = await durablePool.connect()
  const ticking = await durablePool.connect()
  try {
    await holder.query('begin')
    await holder.query('select pg_advisory_xact_lock(4736353)')
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

test('the plan of a tick is made once for all snapshots, since it costs more than the tick', async () => {
  const { durablePool } = db.database
  await sequence(durablePool)
  await writeEvents(durablePool, 1)
  const client = await durablePool.connect()
  let plan = ''
  client.on('notice', ({ message = '' }) => {
    if (message.includes('fresh')) plan += message
  })
  try {
    await client.query(EXPLAIN_NESTED)
    expect((await client.query(TICK)).rows).toEqual([{ numbered: 1, more: false }])
  } finally {
    client.release(true)
  }
  // A plan that is made for the values of one tick has these in place of its parameters.
  const [conditions] = plan.match(/Index Cond: .*pg_snapshot_xmax.*/) ?? []
  expect(conditions).toMatch(/xid >= pg_snapshot_xmax\(\$\d+\)/)
})

test('ticks of many instances do not queue: all but one return at once', async () => {
  const { durablePool } = db.database
  const holder = await durablePool.connect()
  try {
    await writeEvents(durablePool, 3)
    await holder.query('begin')
    expect((await holder.query(TICK)).rows).toEqual([{ numbered: 3, more: false }])
    const others = await Promise.all(Array.from({ length: 6 }, () => durablePool.query(TICK)))
    expect(others.flatMap(({ rows }) => rows)).toEqual(
      others.map(() => ({ numbered: 0, more: null })),
    )
    await holder.query('commit')
    expect((await durablePool.query(TICK)).rows).toEqual([{ numbered: 0, more: false }])
  } finally {
    await holder.query('rollback')
    holder.release()
  }
})

test('the rest of a large snapshot leaves out what an earlier tick numbered', async () => {
  const { durablePool } = db.database
  const late = await durablePool.connect()
  const write = `insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
    values ($1, 'biz_test', true, 'TEST', now(), '')`
  try {
    await late.query('begin')
    await late.query(write, ['evt_late_1'])
    await late.query(write, ['evt_late_2'])
    const [early] = await writeEvents(durablePool, 1)
    expect((await durablePool.query(TICK)).rows).toEqual([{ numbered: 1, more: false }])
    await late.query('commit')
    const [last] = await writeEvents(durablePool, 1)
    for (const numbered of [1, 1, 1, 0]) {
      const { rows } = await durablePool.query('select numbered from sequence_events(1)')
      expect(rows).toEqual([{ numbered }])
    }
    const { rows } = await durablePool.query(
      'select event_id from event_log order by position desc limit 4',
    )
    const ids = rows.map((row) => row.event_id)
    expect(ids).toEqual([last, 'evt_late_2', 'evt_late_1', early])
  } finally {
    await late.query('rollback')
    late.release()
  }
})

test('an event that commits while a tick runs is numbered once, by the next tick', async () => {
  const { durablePool } = db.database
  const [writer, holder] = [await durablePool.connect(), await durablePool.connect()]
  const write = `insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
    values ($1, 'biz_test', true, 'TEST', now(), '')`
  try {
    await writer.query('begin')
    await writer.query(write, ['evt_during_a_tick'])
    await writeEvents(durablePool, 1)
    // The tick has its snapshot, and waits before it reads the events.
    await holder.query('begin; lock table event_log')
    const ticking = durablePool.query(TICK)
    await waitFor(async () => {
      const { rows } = await durablePool.query(
        "select from pg_locks where relation = 'event_log'::regclass and not granted",
      )
      expect(rows).toHaveLength(1)
    })
    await writer.query('commit')
    await holder.query('rollback')
    expect((await ticking).rows).toEqual([{ numbered: 1, more: false }])
    expect((await durablePool.query(TICK)).rows).toEqual([{ numbered: 1, more: false }])
    expect((await durablePool.query(TICK)).rows).toEqual([{ numbered: 0, more: false }])
  } finally {
    await Promise.all([writer, holder].map((client) => client.query('rollback')))
    writer.release()
    holder.release()
  }
})

test('a bump gives up in favour of payments when a writer of events does not end', async () => {
  const { durablePool } = db.database
  const writer = await durablePool.connect()
  try {
    await writer.query('begin')
    await writer.query('lock table outbox in row exclusive mode')
    const bumped = bumpEpoch(durablePool, SYSTEM).catch((error: unknown) => error)
    await waitFor(async () => {
      const { rows } = await durablePool.query(
        "select from pg_locks where relation = 'outbox'::regclass and not granted",
      )
      expect(rows).toHaveLength(1)
    })
    // It waits behind the bump, and not for the writer.
    await writeEvents(durablePool, 1)
    const error = await bumped
    expect(error).toMatchObject({ code: '55P03' })
    expect(isRetryable(error)).toBe(true)
  } finally {
    await writer.query('rollback')
    writer.release()
  }
  const { epoch } = await bumpEpoch(durablePool, SYSTEM)
  await sequence(durablePool)
  expect(epoch).toBe(2)
})

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
  await withWriter(async (writer) => {
    for (let tick = 0; tick < 3; tick++) await writeAndTick()
    await writer.query('commit')
  })
  await writeAndTick()
  const before = await logged()
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

test('the database refuses to change any column of an event, and to delete one', async () => {
  const { durablePool } = db.database
  /** Expects SQLSTATE class 23: the database itself rejects the statement. */
  const refuses = (text: string) =>
    expect(durablePool.query(text), text).rejects.toMatchObject({
      code: expect.stringMatching(/^23/),
    })
  const { rows } = await durablePool.query(
    `select table_name, column_name from information_schema.columns
      where table_name in ('outbox', 'event_log') and is_identity = 'NO'`,
  )
  expect(rows.length).toBeGreaterThan(15)
  for (const { table_name, column_name } of rows) {
    await refuses(`update ${table_name} set ${column_name} = ${column_name}`)
  }
  await refuses('truncate outbox')
  await refuses('truncate event_log')
  await refuses('delete from outbox')
  await refuses('delete from event_log')
})
