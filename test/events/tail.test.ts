import { expect, test } from 'vitest'
import { type Cursor, tagOf } from '../../src/events/cursor.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { Tail } from '../../src/events/tail.ts'
import type { Database } from '../../src/postgres/orm.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { failOver, sequence, writeEvents } from '../support/events.ts'
import { createTestRuntime } from '../support/runtime.ts'

const db = useDatabase(4)

async function publish(count: number): Promise<void> {
  await writeEvents(db.database.durablePool, count)
  await sequence(db.database.durablePool)
}

/** The database, whose next read of the log from a position returns only once it is released. */
function holdRead(from: bigint) {
  const { durablePool } = db.database
  const started = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  let isHeld = false
  const holding = new Proxy(durablePool, {
    get(target, name) {
      const value = Reflect.get(target, name)
      if (name !== 'query') return typeof value === 'function' ? value.bind(target) : value
      return async (query: { name?: string; values?: unknown[] }) => {
        const result = await target.query(query as never)
        if (!isHeld && query.name === 'event-log-read' && query.values?.[0] === from) {
          isHeld = true
          started.resolve()
          await released.promise
        }
        return result
      }
    },
  })
  const database: Database = { ...db.database, durablePool: holding }
  return { database, started: started.promise, release: released.resolve }
}

test('a reader that overtakes a refresh leaves positions dense for all readers', async () => {
  await publish(2)
  const { end, epoch } = await readLogState(db.database.durablePool)
  const start = end.position
  const held = holdRead(start)
  const tail = new Tail(createTestRuntime(held.database))
  const cancel = new AbortController()
  const at = (position: bigint): Cursor => ({ epoch, position, tag: '' })
  try {
    expect((await tail.read(at(0n))).entries.at(-1)?.position).toBe(start)
    // One subscriber waits at the end. The refresh that serves it has read one event …
    await publish(1)
    const waiting = tail.wait(start, 60_000, cancel.signal)
    tail.wake()
    await held.started
    // … when another, which resumes beyond that event, reads the next ones.
    await publish(3)
    const ahead = await tail.read(at(start + 1n))
    expect(ahead.entries.map((entry) => entry.position - start)).toEqual([2n, 3n, 4n])
    held.release()
    await waiting
    // Those who are furthest first: a read of an earlier position could mend the events in memory.
    for (let after = 3n; after >= 0n; after--) {
      const { entries } = await tail.read(at(start + after))
      const expected = Array.from({ length: Number(4n - after) }, (_, i) => after + 1n + BigInt(i))
      expect(entries.map((entry) => entry.position - start)).toEqual(expected)
    }
  } finally {
    held.release()
    cancel.abort()
    await tail.stop()
  }
})

test('a reader whose event is not in the log is refused, from memory as from the database', async () => {
  await publish(3)
  const { end, epoch } = await readLogState(db.database.durablePool)
  const tail = new Tail(createTestRuntime(db.database))
  const position = end.position - 1n
  try {
    const stale = tail.read({ epoch, position, tag: 'abcdef' })
    await expect(stale).rejects.toMatchObject({ reason: 'stale_cursor' })
    const { entries } = await tail.read({ epoch, position: position - 1n, tag: '' })
    expect(entries.at(-1)?.position).toBe(end.position)
    const again = tail.read({ epoch, position, tag: 'abcdef' })
    await expect(again).rejects.toMatchObject({ reason: 'stale_cursor' })
  } finally {
    await tail.stop()
  }
})

test('a reader whose next events were deleted for their age is refused', async () => {
  await publish(3)
  const { durablePool } = db.database
  const { end, epoch } = await readLogState(durablePool)
  await tamper(durablePool, 'delete from event_log where position < $1', [end.position])
  await tamper(durablePool, 'update event_retention set floor = $1', [end.position - 1n])
  const tail = new Tail(createTestRuntime(db.database))
  try {
    const late = tail.read({ epoch, position: end.position - 3n, tag: '' })
    await expect(late).rejects.toMatchObject({ reason: 'expired_cursor' })
    const { entries } = await tail.read({ epoch, position: end.position - 1n, tag: '' })
    expect(entries.map((entry) => entry.position)).toEqual([end.position])
  } finally {
    await tail.stop()
  }
})

test('after a failover that lost events, readers get those that took their positions', async () => {
  const { durablePool } = db.database
  await publish(1)
  const before = await readLogState(durablePool)
  const { position } = before.end
  const tail = new Tail(createTestRuntime(db.database))
  try {
    const lost = await writeEvents(durablePool, 3)
    await sequence(durablePool)
    await tail.read({ epoch: before.epoch, position, tag: '' })
    await failOver(durablePool, lost)
    const written = await writeEvents(durablePool, 3)
    await sequence(durablePool)
    const { epoch } = await readLogState(durablePool)
    expect(epoch).toBe(before.epoch + 1)
    // From the database first, then from memory.
    for (const _ of ['database', 'memory']) {
      const { entries } = await tail.read({ epoch, position, tag: '' })
      expect(entries.map(({ tag }) => tag)).toEqual(written.map(tagOf))
    }
  } finally {
    await tail.stop()
  }
})
