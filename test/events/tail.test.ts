import { expect, test } from 'vitest'
import type { Cursor } from '../../src/events/cursor.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { Tail } from '../../src/events/tail.ts'
import type { Database } from '../../src/postgres/orm.ts'
import { useDatabase } from '../support/database.ts'
import { publishEvents } from '../support/events.ts'
import { createTestRuntime } from '../support/runtime.ts'

const db = useDatabase(4)

const publish = (count: number) => publishEvents(db.database.durablePool, count)

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
