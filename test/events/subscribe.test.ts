import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import pino from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  SubscribeRequestSchema,
  type SubscribeResponse,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import type { CredentialStatus } from '../../src/auth/caller.ts'
import { encodeCursor } from '../../src/events/cursor.ts'
import { placeOf, readLogState } from '../../src/events/log-state.ts'
import { bumpEpoch } from '../../src/events/sequencer.ts'
import { type StreamTiming, subscribe } from '../../src/events/subscribe.ts'
import { Tail } from '../../src/events/tail.ts'
import { useDatabase } from '../support/database.ts'
import { failOver, loseEvents, publishEvents, runRetention } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase()
const log = pino({ level: 'silent' })
let tail: Tail
let cancel: AbortController
let draining: AbortController

beforeEach(() => {
  tail = new Tail(createTestRuntime(db.database, { log }))
  cancel = new AbortController()
  draining = new AbortController()
})

afterEach(async () => {
  cancel.abort()
  await tail.stop()
})

const TIMING: StreamTiming = { checkpointMs: 60_000, streamMs: 3_600_000 }

function open(
  request: MessageInitShape<typeof SubscribeRequestSchema> = {},
  timing: StreamTiming = TIMING,
  credential: CredentialStatus = { isValid: async () => true, end: () => undefined },
) {
  const dependencies = {
    tail,
    draining: draining.signal,
    random: () => 0.5,
    timing,
  }
  const message = create(SubscribeRequestSchema, request)
  return subscribe(createTestRuntime(db.database), dependencies, message, cancel.signal, credential)
}

async function publish(count: number, options?: { businessId?: string; kind?: string }) {
  const ids = await publishEvents(db.database.durablePool, count, options)
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
  const { end } = await readLogState(db.database.durablePool)
  while (all.length < Number(end.position)) {
    await tail.stop()
    tail = new Tail(createTestRuntime(db.database, { log }))
    const cursor = all.at(-1)!.cursor
    all.push(...(await take(open({ start: { case: 'cursor', value: cursor } }), 1)))
  }
  expect(all.map((event) => event.position)).toEqual(all.map((_, index) => BigInt(index + 1)))
  expect(all.slice(-5).map((event) => event.id)).toEqual(ids)
})

test('since starts at the first event logged at or after that time', async () => {
  const serverMs = async () => {
    const { rows } = await db.database.durablePool.query(
      'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now',
    )
    return rows[0].now as number
  }
  await publish(4)
  // Log times are rounded to milliseconds: the next one is later than all events so far.
  const sinceMs = Math.ceil(await serverMs()) + 1
  await waitFor(async () => expect(await serverMs()).toBeGreaterThan(sinceMs))
  const ids = await publish(2)
  const since = open({ start: { case: 'since', value: timestampFromMs(sinceMs) } })
  expect((await take(since, 2)).map((event) => event.id)).toEqual(ids)
  const { rows } = await db.database.durablePool.query(
    'select (extract(epoch from logged_at) * 1000)::float8 as at from event_log where event_id = $1',
    [ids[0]],
  )
  const exactly = open({ start: { case: 'since', value: timestampFromMs(rows[0].at) } })
  expect((await take(exactly, 2)).map((event) => event.id)).toEqual(ids)
})

test('filters select kinds and businesses, and checkpoints advance past filtered events', async () => {
  const stream = open(
    { kinds: ['PAYMENT_NOTIFICATION'], businessIds: ['biz_one'] },
    { checkpointMs: 20, streamMs: 3_600_000 },
  )
  const first = await stream.next()
  await publish(3, { businessId: 'biz_two', kind: 'PAYMENT_NOTIFICATION' })
  await publish(3, { businessId: 'biz_one', kind: 'ACCOUNT_CREATED' })
  const { end } = await readLogState(db.database.durablePool)
  let cursor = first.value.item.value.cursor
  while (cursor !== encodeCursor(end)) {
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
  for (let i = 0; i < 3; i++) {
    await publish(2_500)
    await take(fast, 2_500)
  }
  expect(tail.sizes().entries).toBeLessThanOrEqual(4_096)
  const events = await take(stream, 7_500)
  const from = events[0]!.position
  expect(events.every((event, index) => event.position === from + BigInt(index))).toBe(true)
})

test('refuses a kind that does not exist, and names those that do', async () => {
  const refused = open({ kinds: ['PAYMENT_NOTIFICATION', 'PAYMENT_NOTIFICATON'] }).next()
  await expect(refused).rejects.toMatchObject({
    reason: 'validation_failed',
    fields: [
      {
        field: 'kinds[1]',
        message: expect.stringMatching(/^must be one of PAYMENT_NOTIFICATION, /),
      },
    ],
  })
})

test('refuses a cursor before deleted events, with the oldest valid cursor', async () => {
  await publish(10)
  const end = (await readLogState(db.database.durablePool)).end.position
  const run = () => runRetention(db.database.durablePool, end - 3n)
  expect((await run()).archived).toBeGreaterThan(0)
  expect(await run()).toEqual({ archived: 0, dropped: [], inUse: false })
  const { floor } = await readLogState(db.database.durablePool)
  expect(floor).toBe(end - 3n)
  const oldest = encodeCursor({ epoch: 1, position: floor, tag: '' })
  for (const position of [1n, floor - 1n]) {
    const value = encodeCursor({ epoch: 1, position, tag: '' })
    await expect(open({ start: { case: 'cursor', value } }).next()).rejects.toMatchObject({
      reason: 'expired_cursor',
      facts: { cursor: oldest },
    })
  }
  const rest = await take(open({ start: { case: 'cursor', value: oldest } }), 3)
  expect(rest.map((event) => event.position)).toEqual([end - 2n, end - 1n, end])
})

test('a new epoch ends no subscription of its start, and old cursors of up to there stay valid', async () => {
  const { durablePool } = db.database
  await publish(2)
  const { end } = await readLogState(durablePool)
  const running = open()
  await running.next()
  const { epoch } = await bumpEpoch(durablePool, SYSTEM)
  expect(epoch).toBe(end.epoch + 1)
  const ids = await publish(2)
  for (const stream of [running, open({ start: { case: 'cursor', value: encodeCursor(end) } })]) {
    const events = await take(stream, 2)
    expect(events.map((event) => event.id)).toEqual(ids)
    expect(events.map((event) => event.epoch)).toEqual([epoch, epoch])
  }
})

test('a lossy failover ends the subscriptions that were sent more than survives', async () => {
  const { durablePool } = db.database
  await publish(3)
  const { end: surviving } = await readLogState(durablePool)
  const [ahead, behind] = [open(), open()]
  await ahead.next()
  await behind.next()
  const lost = await publish(2)
  expect((await take(ahead, 2)).map((event) => event.id)).toEqual(lost)
  const { end: seen } = await readLogState(durablePool)
  await failOver(durablePool, lost)
  const ids = await publish(4)
  const { epoch } = await readLogState(durablePool)
  expect(epoch).toBe(seen.epoch + 1)
  const safe = { epoch, position: surviving.position, tag: '' }
  const stale = { reason: 'stale_cursor', facts: { cursor: encodeCursor(safe) } }
  await expect(take(ahead, 1)).rejects.toMatchObject(stale)
  // The state was read before the epoch began.
  const before = { epoch: seen.epoch, end: surviving, floor: 0n }
  await expect(placeOf(durablePool, encodeCursor(seen), before)).rejects.toMatchObject(stale)
  await expect(
    open({ start: { case: 'cursor', value: encodeCursor(seen) } }).next(),
  ).rejects.toMatchObject(stale)
  for (const stream of [open({ start: { case: 'cursor', value: encodeCursor(safe) } }), behind]) {
    const events = await take(stream, 4)
    expect(events.map((event) => event.id)).toEqual(ids)
    expect(events.map((event) => event.position)).toEqual(
      [1n, 2n, 3n, 4n].map((at) => surviving.position + at),
    )
  }
})

test('a restore that changes neither identifier nor timeline is noticed by the events themselves', async () => {
  const { durablePool } = db.database
  await publish(2)
  const running = open()
  await running.next()
  const lost = await publish(2)
  await take(running, 2)
  const { end: seen, floor } = await readLogState(durablePool)
  await loseEvents(durablePool, lost)
  const cursor = encodeCursor({ epoch: seen.epoch, position: floor, tag: '' })
  const stale = { reason: 'stale_cursor', facts: { cursor } }
  const resume = () => open({ start: { case: 'cursor', value: encodeCursor(seen) } }).next()
  await expect(resume()).rejects.toMatchObject(stale)
  // As many other events get the same positions.
  await publish(3)
  await expect(resume()).rejects.toMatchObject(stale)
  await expect(take(running, 1)).rejects.toMatchObject(stale)
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
  await waitFor(() => expect(asked).toBeGreaterThan(1))
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
