import { expect, test } from 'vitest'
import { bumpEpoch } from '../../src/events/sequencer.ts'
import { isRetryable } from '../../src/postgres/is-retryable.ts'
import { lockWaits, useDatabase, withOpenTransaction } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import { waitUntil } from '../support/wait-for.ts'

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
  await withOpenTransaction(durablePool, async (holder) => {
    await holder.query('select pg_advisory_xact_lock(4736353)')
    await withOpenTransaction(durablePool, async (ticking) => {
      expect((await ticking.query(TICK)).rows).toEqual([{ numbered: 0, more: false }])
      const { rows } = await ticking.query('select pg_current_xact_id_if_assigned() as xid')
      expect(rows).toEqual([{ xid: null }])
    })
  })
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
  await writeEvents(durablePool, 3)
  await withOpenTransaction(durablePool, async (holder) => {
    expect((await holder.query(TICK)).rows).toEqual([{ numbered: 3, more: false }])
    const others = await Promise.all(Array.from({ length: 6 }, () => durablePool.query(TICK)))
    expect(others.flatMap(({ rows }) => rows)).toEqual(
      others.map(() => ({ numbered: 0, more: null })),
    )
    await holder.query('commit')
    expect((await durablePool.query(TICK)).rows).toEqual([{ numbered: 0, more: false }])
  })
})

test('an event that commits while a tick runs is numbered once, by the next tick', async () => {
  const { durablePool } = db.database
  await withOpenTransaction(durablePool, async (writer) => {
    await writeEvents(writer, 1)
    await writeEvents(durablePool, 1)
    await withOpenTransaction(durablePool, async (holder) => {
      // The tick has its snapshot, and waits before it reads the events.
      await holder.query('lock table event_log')
      const ticking = durablePool.query(TICK)
      await waitUntil(async () => (await lockWaits(durablePool, 'event_log')) === 1)
      await writer.query('commit')
      await holder.query('rollback')
      expect((await ticking).rows).toEqual([{ numbered: 1, more: false }])
      expect((await durablePool.query(TICK)).rows).toEqual([{ numbered: 1, more: false }])
      expect((await durablePool.query(TICK)).rows).toEqual([{ numbered: 0, more: false }])
    })
  })
})

test('a bump gives up in favour of payments when a writer of events does not end', async () => {
  const { durablePool } = db.database
  await withOpenTransaction(durablePool, async (writer) => {
    await writer.query('lock table outbox in row exclusive mode')
    const bumped = bumpEpoch(durablePool, SYSTEM).catch((error: unknown) => error)
    // On a busy machine it may give up before this sees it.
    const isWaiting = waitUntil(async () => (await lockWaits(durablePool, 'outbox')) === 1)
    await Promise.race([bumped, isWaiting.catch(() => undefined)])
    // It waits behind the bump, and not for the writer.
    await writeEvents(durablePool, 1)
    const error = await bumped
    expect(error).toMatchObject({ code: '55P03' })
    expect(isRetryable(error)).toBe(true)
  })
  const { epoch } = await bumpEpoch(durablePool, SYSTEM)
  await sequence(durablePool)
  expect(epoch).toBe(2)
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
