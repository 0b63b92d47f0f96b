import { beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { readBusinessLog, readLog } from '../../src/events/read-log.ts'
import { claimRun, createRetention, raiseFloor } from '../../src/events/retention.ts'
import { bumpEpoch } from '../../src/events/sequencer.ts'
import { cutPartition, dropPartition, listPartitions } from '../../src/postgres/partitions.ts'
import { tamper, useDatabase, withOpenTransaction } from '../support/database.ts'
import {
  cutPartitions,
  loseEvents,
  publishEvents,
  sequence,
  writeEvents,
} from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { waitUntil } from '../support/wait-for.ts'

const db = useDatabase(6)

const businessId = 'biz_old'
const PAID = { businessId, kind: 'PAYMENT_NOTIFICATION' }

const sql = async (text: string, values: unknown[] = []) =>
  (await db.database.durablePool.query(text, values)).rows

/** The retention two days later. @param upTo the last position that has its deliveries */
const retention = (upTo = 2n ** 40n, clock = { now: () => Date.now() + 2 * DAY_MS }) =>
  createRetention(createTestRuntime(db.database, { clock }), {
    retentionDays: 1,
    rowsMax: 3,
    lockedMs: 100,
    dispatchedUpTo: async () => upTo,
  })

const expire = (upTo?: bigint) => retention(upTo).run()

/** Writes and numbers events, and ends the partitions after them. @returns the ids of the events */
async function fill(count: number, event = PAID): Promise<string[]> {
  const ids = await publishEvents(db.database.durablePool, count, event)
  await cutPartitions(db.database.durablePool)
  return ids
}

const partitionsOf = async (table: string) =>
  (await listPartitions(db.database.durablePool, table)).slice(0, -1).map(({ name }) => name)
const endOf = async () => (await readLogState(db.database.durablePool)).end.position
const moneyOf = () =>
  sql(
    `select count(*)::int as events, sum(pending_minor)::int as pending, max(business_sequence)::int as last
      from money_event where business_id = $1`,
    [businessId],
  )

/** Nothing of earlier tests is left but the last event. */
beforeEach(async () => {
  await fill(1)
  await publishEvents(db.database.durablePool, 1)
  await expire()
  expect(await partitionsOf('event_log')).toEqual([])
})

describe('events that have expired', () => {
  test('are dropped with their partitions, and count once in balances before and after', async () => {
    await fill(10)
    const end = await endOf()
    await publishEvents(db.database.durablePool, 2, PAID)
    const before = await moneyOf()
    const run = await expire()
    expect(run.archived).toBe(12)
    expect(run.dropped).toHaveLength(2)
    expect(await moneyOf()).toEqual(before)
    expect(await expire()).toEqual({ archived: 0, dropped: [], inUse: false })
    const [left] = await sql('select min(position)::int as position from event_log')
    expect(BigInt(left.position)).toBe(end + 1n)
    expect((await sql('select from outbox')).length).toBe(2)
  })

  test('in a partition with younger ones stay stored, and are not read', async () => {
    const { durablePool } = db.database
    await writeEvents(durablePool, 6, PAID)
    await fill(0)
    const before = await moneyOf()
    const floor = (await endOf()) - 2n
    expect((await expire(floor)).dropped).toEqual([])
    expect(await moneyOf()).toEqual(before)
    const { entries } = await readLog(durablePool, 1n, 100)
    expect(entries.map(({ position }) => position)).toEqual([floor + 1n, floor + 2n])
    const listed = await readBusinessLog(durablePool, {
      businessId,
      live: true,
      after: 0n,
      kinds: [],
      limit: 100,
    })
    expect(listed.entries.map(({ position }) => position)).toEqual([floor + 1n, floor + 2n])
  })

  test('stay while only the clock of the database says that they have expired', async () => {
    await fill(4)
    await fill(1)
    const clock = { now: () => Date.now() + 2 * DAY_MS }
    const runtime = createTestRuntime(db.database, { clock, safeClock: systemClock })
    const dispatchedUpTo = async () => 2n ** 40n
    const run = await createRetention(runtime, { retentionDays: 1, dispatchedUpTo }).run()
    expect(run).toEqual({ archived: 0, dropped: [], inUse: false })
    expect((await expire()).dropped).not.toEqual([])
  })

  test('stay while webhooks have not been given them', async () => {
    const end = await endOf()
    await fill(4)
    await fill(1)
    expect((await expire(end)).dropped).toEqual([])
    expect((await expire()).dropped).toHaveLength(2)
  })

  test('are dropped soon after others have ended their use of the partition', async () => {
    const { durablePool } = db.database
    await fill(1)
    await publishEvents(durablePool, 1)
    await sql('update event_retention set next_run_at = to_timestamp(0)')
    const [used] = await partitionsOf('event_log')
    const loop = retention()
    await withOpenTransaction(durablePool, async (reader) => {
      await reader.query(`lock table ${used} in access share mode`)
      loop.start()
      await waitUntil(async () => (await partitionsOf('outbox')).length === 0)
      expect((await expire()).inUse).toBe(true)
      expect(await partitionsOf('event_log')).toEqual([used])
      await reader.query('rollback')
      await waitUntil(async () => (await partitionsOf('event_log')).length === 0)
    }).finally(() => loop.stop())
  })

  test('are dropped by one instance at a time', async () => {
    const { durablePool } = db.database
    const nowMs = Date.now() + 5 * DAY_MS
    const claims = await Promise.all([1, 2, 3].map(() => claimRun(durablePool, nowMs, 1_000)))
    expect(claims.filter((claimed) => claimed)).toHaveLength(1)
    expect(await claimRun(durablePool, nowMs + 999, 1_000)).toBe(false)
    expect(await claimRun(durablePool, nowMs + 1_000, 1_000)).toBe(true)
  })

  test('are never read again, whichever instance is late', async () => {
    const { durablePool } = db.database
    const end = await endOf()
    for (const floor of [end, end - 1n]) await raiseFloor(durablePool, floor)
    expect((await readLogState(durablePool)).floor).toBe(end)
  })

  test('are archived by one instance, also for longer than its lease', async () => {
    const { durablePool } = db.database
    await fill(20)
    await sql('update event_retention set next_run_at = to_timestamp(0)')
    const startMs = Date.now() + 2 * DAY_MS
    let nowMs = startMs
    const slow = { now: () => (nowMs += 120_000) }
    expect(await claimRun(durablePool, startMs, 300_000)).toBe(true)
    expect((await retention(undefined, slow).run()).archived).toBeGreaterThanOrEqual(20)
    expect(nowMs).toBeGreaterThan(startMs + 900_000)
    expect(await claimRun(durablePool, nowMs, 300_000)).toBe(false)
  })
})

describe('the database drops no partition', () => {
  const drop = async (table: string) => {
    const [name] = await partitionsOf(table)
    return dropPartition(db.database.durablePool, table, name!)
  }
  const archive = () =>
    sql(`update event_retention set floor = (select position from sequencer),
      archived = (select position from sequencer)`)

  test('of events that have not expired, or are not archived', async () => {
    await fill(4)
    await fill(1)
    expect(await drop('outbox')).toBe(false)
    await sql('update event_retention set floor = (select position from sequencer)')
    expect(await drop('outbox')).toBe(false)
    await archive()
    // The log is needed as long as the content is there.
    expect(await drop('event_log')).toBe(false)
    expect(await drop('outbox')).toBe(true)
    expect(await drop('event_log')).toBe(true)
  })

  test('of an event that has no position yet', async () => {
    await publishEvents(db.database.durablePool, 1, PAID)
    await writeEvents(db.database.durablePool, 1, PAID)
    await cutPartitions(db.database.durablePool)
    await writeEvents(db.database.durablePool, 1, PAID)
    await archive()
    expect(await drop('outbox')).toBe(false)
    await fill(1)
    await archive()
    expect(await drop('outbox')).toBe(true)
  })
})

test('an epoch after a lossy failover numbers nothing of dropped partitions again', async () => {
  const { durablePool } = db.database
  await fill(6)
  await fill(2)
  const lost = await fill(1)
  await expire((await endOf()) - 3n)
  await loseEvents(durablePool, lost)
  const before = await endOf()
  await bumpEpoch(durablePool, SYSTEM)
  await sequence(durablePool)
  expect(await endOf()).toBe(before)
  const [twice] = await sql('select count(*) - count(distinct event_id) as more from event_log')
  expect(twice.more).toBe('0')
})

test('reads of the newest events open only their partitions', async () => {
  for (let i = 0; i < 6; i++) await fill(3)
  const [part] = await partitionsOf('outbox')
  // The sequencer reads a partition that may have events after `low_seq`, by its bounds: as long as a
  // transaction anywhere in the cluster that is older than its rows runs, such as one of another test.
  await waitUntil(async () => {
    await publishEvents(db.database.durablePool, 1)
    const [{ is_read }] = await sql(
      `select upper::bigint > low_seq as is_read from sequencer, list_partitions('outbox') where name = $1`,
      [part],
    )
    return !is_read
  })
  const end = await endOf()
  const client = await db.database.durablePool.connect()
  try {
    await client.query('set plan_cache_mode = force_generic_plan')
    await client.query('begin')
    // Nothing is flushed inside a transaction: it counts what this connection reads, and no other.
    /** How often it has read the oldest partition. */
    const touched = async () => {
      const { rows } = await client.query(
        `select coalesce(seq_scan, 0) + coalesce(idx_scan, 0) as scans
          from pg_stat_xact_all_tables where relname = $1`,
        [part],
      )
      return Number(rows[0].scans)
    }
    const before = await touched()
    const pool = { query: client.query.bind(client) } as unknown as typeof db.database.durablePool
    for (let i = 0; i < 7; i++) {
      expect((await readLog(pool, end - 1n, 10)).entries).toHaveLength(2)
      await client.query('select sequence_events(100)')
    }
    expect(await touched()).toBe(before)
    await client.query('select count(*) from outbox')
    expect(await touched()).toBeGreaterThan(before)
  } finally {
    client.release(true)
  }
})

test('a partition ahead of the first event is not dropped', async () => {
  const { durablePool } = db.database
  const [{ lower }] = await sql("select lower from list_partitions('outbox') where upper is null")
  const boundary = `${BigInt(lower) + 1_000n}`
  await cutPartition(durablePool, 'outbox', { boundary, suffix: lower })
  await tamper(durablePool, 'delete from outbox')
  await sql(`update event_retention set floor = (select position from sequencer),
      archived = (select position from sequencer)`)
  expect(await dropPartition(durablePool, 'outbox', `outbox_${lower}`)).toBe(false)
  await writeEvents(durablePool, 1)
  // Its numbers are used up, so that it can be dropped before the next test.
  await sql("select setval('outbox_seq_seq', $1)", [boundary])
})

test('only events that were logged before the retention expire', async () => {
  const { durablePool } = db.database
  const end = await endOf()
  await publishEvents(durablePool, 4, PAID)
  // The retention of these tests is a day, and runs two days later.
  const nowMs = Date.now() + 2 * DAY_MS
  for (const [index, days] of [2, 1.1, 0.9, 0.1].entries()) {
    await tamper(durablePool, 'update event_log set logged_at = $2 where position = $1', [
      end + BigInt(index) + 1n,
      new Date(nowMs - days * DAY_MS),
    ])
  }
  await expire()
  expect((await readLogState(durablePool)).floor).toBe(end + 2n)
})
