import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import {
  SubscribeRequestSchema,
  type SubscribeResponse,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import { type CredentialStatus, SYSTEM } from '../../src/auth/caller.ts'
import { encodeCursor } from '../../src/events/cursor.ts'
import { bumpEpoch, readLogState } from '../../src/events/log-state.ts'
import { createRetention } from '../../src/events/retention.ts'
import { type StreamTiming, subscribe } from '../../src/events/subscribe.ts'
import { Tail } from '../../src/events/tail.ts'
import { readBalance } from '../../src/settlement/balances/store.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'

const db = useDatabase()
const log = pino({ level: 'silent' })
let tail: Tail
let cancel: AbortController
let draining: AbortController

beforeEach(() => {
  tail = new Tail(db.database, log)
  cancel = new AbortController()
  draining = new AbortController()
})

afterEach(async () => {
  cancel.abort()
  await tail.stop()
})

const TIMING: StreamTiming = { checkpointMs: 60_000, streamMs: 60_000 }

function open(
  request: MessageInitShape<typeof SubscribeRequestSchema> = {},
  timing: StreamTiming = TIMING,
  credential: CredentialStatus = { isValid: async () => true, end: () => undefined },
) {
  const dependencies = {
    database: db.database,
    tail,
    draining: draining.signal,
    random: () => 0.5,
    timing,
  }
  const message = create(SubscribeRequestSchema, request)
  return subscribe(dependencies, message, cancel.signal, credential)
}

async function publish(count: number, options?: { businessId?: string; kind?: string }) {
  const ids = await writeEvents(db.database.pool, count, options)
  await sequence(db.database.pool)
  tail.wake()
  return ids
}

/** Returns the next events of a stream, without its checkpoints. */
async function take(stream: AsyncGenerator<SubscribeResponse>, count: number) {
  const events = []
  while (events.length < count) {
    const { value, done } = await stream.next()
    if (done) throw new Error('the stream ended early')
    if (value.item.case === 'event') events.push(value.item.value)
  }
  return events
}

test('a subscription without a start begins with a checkpoint and receives later events', async () => {
  await publish(3)
  const stream = open()
  expect((await stream.next()).value.item.case).toBe('checkpoint')
  const ids = await publish(2)
  expect((await take(stream, 2)).map((event) => event.id)).toEqual(ids)
})

test('a stream can resume at every position of the log', async () => {
  const ids = await publish(5)
  const events = await take(open({ start: { case: 'beginning', value: true } }), 1)
  const all = [...events]
  // One event at a time, each from a new stream and a fresh tail: nothing is lost or repeated.
  const { end } = await readLogState(db.database.orm)
  while (all.length < Number(end)) {
    await tail.stop()
    tail = new Tail(db.database, log)
    const cursor = all.at(-1)!.cursor
    all.push(...(await take(open({ start: { case: 'cursor', value: cursor } }), 1)))
  }
  expect(all.map((event) => event.position)).toEqual(all.map((_, index) => BigInt(index + 1)))
  expect(all.slice(-5).map((event) => event.id)).toEqual(ids)
})

test('since starts at the first event logged at or after that time', async () => {
  const serverMs = async () => {
    const { rows } = await db.database.pool.query(
      'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now',
    )
    return rows[0].now as number
  }
  await publish(4)
  // Log times are rounded to milliseconds: the next one is later than all events so far.
  const sinceMs = Math.ceil(await serverMs()) + 1
  await vi.waitFor(async () => expect(await serverMs()).toBeGreaterThan(sinceMs), { interval: 1 })
  const ids = await publish(2)
  const since = open({ start: { case: 'since', value: timestampFromMs(sinceMs) } })
  expect((await take(since, 2)).map((event) => event.id)).toEqual(ids)
})

test('filters select kinds and businesses, and checkpoints advance past filtered events', async () => {
  const stream = open(
    { kinds: ['PAYMENT_NOTIFICATION'], businessIds: ['biz_one'] },
    { checkpointMs: 20, streamMs: 60_000 },
  )
  const first = await stream.next()
  await publish(3, { businessId: 'biz_two', kind: 'PAYMENT_NOTIFICATION' })
  await publish(3, { businessId: 'biz_one', kind: 'ACCOUNT_CREATED' })
  const { end } = await readLogState(db.database.orm)
  let cursor = first.value.item.value.cursor
  while (cursor !== encodeCursor({ epoch: 1, position: end })) {
    const { value } = await stream.next()
    expect(value.item.case).toBe('checkpoint')
    cursor = value.item.value.cursor
  }
  const [id] = await publish(1, { businessId: 'biz_one', kind: 'PAYMENT_NOTIFICATION' })
  expect((await take(stream, 1))[0]!.id).toBe(id)
})

test('a stream ends with a checkpoint, at its time limit and when the service drains', async () => {
  const short = open({}, { checkpointMs: 60_000, streamMs: 30 })
  await publish(1)
  const items = []
  for await (const { item } of short) items.push(item.case)
  expect(items.at(-1)).toBe('checkpoint')
  const drained = open()
  await drained.next()
  const last = drained.next()
  draining.abort()
  expect((await last).value.item.case).toBe('checkpoint')
  expect((await drained.next()).done).toBe(true)
})

test('a slow subscriber reads from the database, in order and without a gap', async () => {
  const stream = open()
  await stream.next()
  const fast = open()
  await fast.next()
  for (let i = 0; i < 6; i++) {
    await publish(2_500)
    await take(fast, 2_500)
  }
  expect(tail.sizes().entries).toBeLessThanOrEqual(4_096)
  const events = await take(stream, 15_000)
  const from = events[0]!.position
  expect(events.every((event, index) => event.position === from + BigInt(index))).toBe(true)
})

test('subscribers share the same item object, which is built once', async () => {
  const streams = [open(), open()]
  for (const stream of streams) await stream.next()
  await publish(1)
  const waiting = await Promise.all(streams.map((stream) => stream.next()))
  await publish(1)
  const items = await Promise.all(streams.map((stream) => stream.next()))
  expect(waiting.every((item) => item.value.item.case === 'event')).toBe(true)
  expect(items[0]!.value).toBe(items[1]!.value)
})

test('refuses a text that is not a cursor of this service', async () => {
  for (const cursor of ['nonsense', encodeCursor({ epoch: 1, position: 1n }).slice(1), '✓']) {
    const refused = open({ start: { case: 'cursor', value: cursor } }).next()
    await expect(refused).rejects.toMatchObject({ reason: 'invalid_cursor' })
  }
})

test('refuses a cursor before deleted events, with the oldest valid cursor', async () => {
  await publish(10)
  const { end } = await readLogState(db.database.orm)
  const retention = createRetention({
    pool: db.database.pool,
    clock: { now: () => Date.now() + 2 * 86_400_000 },
    log,
    retentionDays: 1,
    deliveredUpTo: async () => end - 3n,
  })
  expect(await retention.run()).toBeGreaterThan(0)
  expect(await retention.run()).toBe(0)
  const { floor } = await readLogState(db.database.orm)
  expect(floor).toBe(end - 3n)
  const refused = open({
    start: { case: 'cursor', value: encodeCursor({ epoch: 1, position: 1n }) },
  }).next()
  const oldest = encodeCursor({ epoch: 1, position: floor })
  await expect(refused).rejects.toMatchObject({
    reason: 'expired_cursor',
    facts: { cursor: oldest },
  })
  const rest = await take(open({ start: { case: 'cursor', value: oldest } }), 3)
  expect(rest.map((event) => event.position)).toEqual([end - 2n, end - 1n, end])
  const { rows } = await db.database.pool.query('select count(*)::int as rows from outbox')
  expect(rows[0].rows).toBe(3)
})

test('after an epoch bump, refuses cursors of the old epoch with a safe cursor to resume from', async () => {
  await publish(4)
  const { pool } = db.database
  const before = await readLogState(db.database.orm)
  const running = open()
  await running.next()
  // As after a restore: the outbox has rows with transaction ids of another cluster.
  const ids = await writeEvents(pool, 2)
  await pool.query("update outbox set xid = '3' where event_id = any($1)", [ids])
  // The first of them was written before all events in the log.
  await pool.query(
    `with moved as (delete from outbox where event_id = $1 returning *)
      insert into outbox (seq, event_id, business_id, live, kind, occurred_at, payload, xid)
      overriding system value
      select 1, event_id, business_id, live, kind, occurred_at, payload, xid from moved`,
    [ids[0]],
  )
  await pool.query(
    "update sequencer set snapshot = '900000000:900000000:'::pg_snapshot where id = 1",
  )
  await expect(sequence(pool)).rejects.toThrow(/another database cluster/)
  const { epoch } = await bumpEpoch(db.database.orm, SYSTEM)
  expect(epoch).toBe(before.epoch + 1)
  await expect(
    (async () => {
      for await (const _ of running);
    })(),
  ).rejects.toMatchObject({ reason: 'stale_cursor' })
  const seen = encodeCursor({ epoch: before.epoch, position: before.end + 5n })
  const refused = await open({ start: { case: 'cursor', value: seen } })
    .next()
    .catch((error) => error)
  expect(refused).toMatchObject({
    reason: 'stale_cursor',
    facts: { cursor: encodeCursor({ epoch, position: before.end }) },
  })
  const resumed = open({ start: { case: 'cursor', value: refused.facts.cursor } })
  expect((await take(resumed, 2)).map((event) => event.id)).toEqual(ids)
  const [after] = await publish(1)
  expect((await take(resumed, 1))[0]!.id).toBe(after)
})

test('a restore into a cluster with lower transaction ids numbers each event once', async () => {
  const { pool } = db.database
  const paid = { businessId: 'biz_restored', kind: 'PAYMENT_NOTIFICATION' }
  const numbered = await publish(3, paid)
  const waiting = await writeEvents(pool, 2, paid)
  const ids = [...numbered, ...waiting]
  // As in a dump: the transaction ids are of the source cluster, which was ahead of this one.
  await pool.query("update outbox set xid = '900000000' where event_id = any($1)", [ids])
  await pool.query(
    "update sequencer set snapshot = '900000001:900000001:'::pg_snapshot where id = 1",
  )
  await expect(sequence(pool)).rejects.toThrow(/another database cluster/)
  await bumpEpoch(db.database.orm, SYSTEM)
  const balance = () => readBalance(pool, { businessId: 'biz_restored', live: true })
  expect(await balance()).toMatchObject({ pendingMinor: 5n, isForeignSnapshot: false })
  const later = await publish(1, paid)
  expect(await balance()).toMatchObject({ pendingMinor: 6n })
  const { rows } = await pool.query(
    "select event_id from event_log where business_id = 'biz_restored' order by business_sequence",
  )
  expect(rows.map((row) => row.event_id)).toEqual([...ids, ...later])
  // No row has a transaction id that a future transaction will have.
  const future = await pool.query(
    'select from outbox where xid >= pg_snapshot_xmax(pg_current_snapshot())',
  )
  expect(future.rowCount).toBe(0)
})

test('a stream ends when its credential is revoked, but not while the database is unavailable', async () => {
  let asked = 0
  let stands: () => Promise<boolean> = async () => {
    throw new Error('the database is unavailable')
  }
  const running = open({}, TIMING, {
    isValid: () => {
      asked += 1
      return stands()
    },
    end: () => undefined,
  })
  await running.next()
  const next = running.next()
  await vi.waitFor(() => expect(asked).toBeGreaterThan(1), 10_000)
  const [id] = await publish(1)
  expect((await next).value.item.value.id).toBe(id)
  stands = async () => false
  await expect(running.next()).rejects.toMatchObject({ reason: 'unauthorized' })
})

test('a stream with a revoked credential yields no more events, even if events are waiting', async () => {
  const ended = Promise.withResolvers<unknown>()
  let stands = true
  const stream = open({ start: { case: 'beginning', value: true } }, TIMING, {
    isValid: async () => stands,
    end: ended.resolve,
  })
  await publish(3)
  await take(stream, 1)
  // Two more events wait, and the subscriber does not read them.
  stands = false
  expect(await ended.promise).toMatchObject({ reason: 'unauthorized' })
  await expect(stream.next()).rejects.toMatchObject({ reason: 'unauthorized' })
})

test('a stream that has ended no longer checks its credential', async () => {
  let asked = 0
  const end = vi.fn()
  const stream = open({}, TIMING, {
    isValid: async () => {
      asked += 1
      return true
    },
    end,
  })
  await stream.next()
  await vi.waitFor(() => expect(asked).toBeGreaterThan(0), 5_000)
  await stream.return(undefined)
  const askedThen = asked
  const other = open({}, TIMING, { isValid: async () => false, end })
  await other.next()
  await expect(other.next()).rejects.toMatchObject({ reason: 'unauthorized' })
  // This later stream is ended by its credential, so the earlier ones would have been checked too.
  const ended = Promise.withResolvers<unknown>()
  await open({}, TIMING, { isValid: async () => false, end: ended.resolve }).next()
  await ended.promise
  expect(asked).toBe(askedThen)
  expect(end).not.toHaveBeenCalled()
})
