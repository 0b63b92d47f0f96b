import type { Pool, PoolClient } from 'pg'
import pino from 'pino'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { ENTITIES } from '../../../src/app/entities.ts'
import { LOGGED_TIMELINE } from '../../../src/events/log-state.ts'
import type { Queryable } from '../../../src/postgres/in-transaction.ts'
import { openDatabase, openReadPool } from '../../../src/postgres/orm.ts'
import { createReplica, createReplicas } from '../../../src/postgres/replicas.ts'
import { readPrimary } from '../../../src/postgres/server-state.ts'
import { migrated, query } from '../../support/database.ts'
import { waitFor } from '../../support/wait-for.ts'
import { usePair } from '../standby.ts'
import { pause, resume } from './scene.ts'

const ATTEMPTS_MAX = 30

const count = async (on: Queryable): Promise<number> =>
  (await on.query<{ count: number }>('select count(*)::int as count from note')).rows[0]!.count

const shared = usePair()
beforeAll(() => migrated(shared.pair.primary.url))

/** The primary with an empty table, and its standby, which replays. */
async function openScene() {
  const { pair } = shared
  await resume(pair.standby.url)
  await query(pair.primary.url, 'drop table if exists note', 'create table note (id int)')
  await pair.caughtUp()
  const database = await openDatabase(pair.primary.url, ENTITIES, { connectionsMax: 2 })
  onTestFinished(database.close)
  const write = () => query(pair.primary.url, 'insert into note values (1)')
  return {
    pair,
    pool: database.durablePool,
    write,
    standbyPool: openReadPool(pair.standby.url, {}, 2),
  }
}

test('a read after a commit sees it, also right after a read on the replica', async () => {
  const { pair, pool, write, standbyPool } = await openScene()
  const targets: string[] = []
  const replicas = createReplicas({
    durablePool: pool,
    pools: new Map([['standby', standbyPool]]),
    loggedTimeline: LOGGED_TIMELINE,
    log: pino({ level: 'silent' }),
    onRead: (target: string) => targets.push(target),
  })
  replicas.start()
  onTestFinished(replicas.stop)
  // The primary may write to its log by itself before the replay stops; the replica is then behind.
  for (let attempt = 1; attempt <= ATTEMPTS_MAX && targets.at(-1) !== 'standby'; attempt++) {
    await resume(pair.standby.url)
    await pair.caughtUp()
    await waitFor(() => expect(replicas.all[0]?.fault()).toBeUndefined())
    await pause(pair.standby.url)
    expect(await replicas.read(count)).toBe(0)
  }
  expect(targets.at(-1)).toBe('standby')
  await write()
  expect(await replicas.read(count)).toBe(1)
  expect(targets.at(-1)).toBe('primary')
  await resume(pair.standby.url)
})

/** A pool whose clients do something after their first statement. */
function afterFirst(pool: Pool, act: () => Promise<void>): Pool {
  const connect = async () => {
    const client: PoolClient = await pool.connect()
    let isFirst = true
    const query = async (...args: [string]) => {
      const result = await client.query(...args)
      if (isFirst) await act()
      isFirst = false
      return result
    }
    return { query, on() {}, off() {}, release: () => client.release() }
  }
  return { connect, end: () => pool.end() } as unknown as Pool
}

test('a read sees what the replica replayed while the read waited for it, and no other history', async () => {
  const { pair, pool, write, standbyPool } = await openScene()
  const catchUp = async () => {
    await resume(pair.standby.url)
    await pair.caughtUp()
  }
  const replica = createReplica({
    name: 'standby',
    loggedTimeline: LOGGED_TIMELINE,
    onChange: () => undefined,
    pool: afterFirst(standbyPool, catchUp),
  })
  onTestFinished(replica.close)
  let written = 0
  // A replica that takes longer than a second for a statement is not waited for.
  const primary = await waitFor(async () => {
    await standbyPool.query('select')
    await pause(pair.standby.url)
    await write()
    written += 1
    const state = await readPrimary(pool, 5_000)
    expect(await replica.read(state, count)).toEqual({ value: written })
    return state
  })
  const later = { ...primary, timeline: primary.timeline + 1 }
  expect(await replica.read(later, count)).toBeUndefined()
})

test('a read that the replay of the log cancels is run by the primary', async () => {
  const { pair, pool: primaryPool, standbyPool: pool } = await openScene()
  await query(
    pair.standby.url,
    "alter system set max_standby_streaming_delay = '0'",
    'select pg_reload_conf()',
  )
  const texts = ['create table row as select generate_series(1, 1000)', 'analyze row']
  await query(pair.primary.url, ...texts)
  const faults: (string | undefined)[] = []
  const replica = createReplica({
    name: 'standby',
    pool,
    loggedTimeline: LOGGED_TIMELINE,
    onChange: (fault) => faults.push(fault),
  })
  onTestFinished(replica.close)
  const primary = await readPrimary(primaryPool, 5_000)
  await waitFor(async () => {
    await replica.check(primary)
    expect(replica.fault()).toBeUndefined()
  })
  await waitFor(async () => {
    faults.length = 0
    const errors: unknown[] = []
    await query(pair.primary.url, 'insert into row select generate_series(1, 1000)')
    const cancelled = await replica.read(await readPrimary(primaryPool, 5_000), async (on) => {
      const sleep = on.query('select pg_sleep(4) from row limit 1')
      // On a busy machine the log of this may arrive too late.
      await query(pair.primary.url, 'delete from row', 'vacuum row')
      await sleep.catch((error: unknown) => {
        errors.push(error)
        throw error
      })
    })
    expect(cancelled).toBeUndefined()
    expect(errors).toMatchObject([{ code: '40001' }])
    // The server itself is well.
    expect(faults).toEqual([])
  })
  const read = async () => replica.read(primary, async () => 'read')
  await waitFor(async () => expect(await read()).toEqual({ value: 'read' }))
})
