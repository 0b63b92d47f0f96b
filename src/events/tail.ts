import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { SubscribeResponse } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { toEventItem } from './message.ts'
import { readEpoch, readLog } from './read-log.ts'

/** How many events the tail keeps, and how many one read brings. */
const ENTRIES_MAX = 10_000
const READ_MAX = 500

/** How often the end of the log is looked at when nobody told of it. */
const POLL_MS = 1_000

/** An event on its way to subscribers. The item is shared: it is encoded once for all of them. */
export interface TailEntry {
  readonly position: bigint
  readonly kind: string
  readonly businessId: string
  readonly item: SubscribeResponse
}

/** The end of the log in memory, shared by the subscribers of this instance. */
export interface Tail {
  /** The log has grown. */
  wake(): void
  /** Raised after a restore; part of every cursor. */
  epoch(): Promise<number>
  /**
   * Events after a position, at most a few hundred, from memory when they are there and else from
   * the database. None means that there are none yet.
   */
  read(after: bigint): Promise<readonly TailEntry[]>
  /** Resolves when there may be events after the position, or the time is over, or on abort. */
  wait(after: bigint, timeoutMs: number, signal: AbortSignal): Promise<void>
  /** How many subscribers wait, and how many events are kept. */
  sizes(): { readonly waiting: number; readonly entries: number }
  stop(): void
}

export function createTail(pool: Pool, log: Logger): Tail {
  let entries: TailEntry[] = []
  let waiting = new Set<() => void>()
  let refreshing: Promise<void> | undefined
  let again = false
  let epoch: Promise<number> | undefined

  const epochOf = (): Promise<number> => {
    epoch ??= readEpoch(pool).catch((error: unknown) => {
      epoch = undefined
      throw error
    })
    return epoch
  }
  const load = async (after: bigint): Promise<TailEntry[]> => {
    const at = await epochOf()
    const rows = await readLog(pool, after, READ_MAX)
    return rows.map((row) => ({
      position: row.position,
      kind: row.kind,
      businessId: row.businessId,
      item: toEventItem(row, at),
    }))
  }
  const wakeAll = (): void => {
    const woken = waiting
    waiting = new Set()
    for (const resolve of woken) resolve()
  }
  /** Reads on from the last event in memory, while somebody waits for it. */
  const refresh = async (): Promise<void> => {
    try {
      do {
        again = false
        const last = entries.at(-1)
        if (last !== undefined) {
          const fresh = await load(last.position)
          entries.push(...fresh)
          if (entries.length > ENTRIES_MAX) entries = entries.slice(-ENTRIES_MAX)
          if (fresh.length === READ_MAX) again = true
        }
        wakeAll()
      } while (again && waiting.size > 0)
    } catch (error) {
      log.warn({ err: error }, 'reading the event log failed; trying again')
    } finally {
      refreshing = undefined
    }
  }
  const wake = (): void => {
    again = true
    if (waiting.size > 0) refreshing ??= refresh()
  }
  const timer = setInterval(wake, POLL_MS)
  return {
    wake,
    epoch: epochOf,
    async read(after) {
      const first = entries[0]
      if (first !== undefined && first.position <= after + 1n) {
        // Positions are dense, so a place in the log is a place in memory.
        const from = Number(after + 1n - first.position)
        return entries.slice(from, from + READ_MAX)
      }
      const fresh = await load(after)
      // With nothing in memory, or where a reader is ahead of it, memory starts anew from here.
      const last = entries.at(-1)
      const end = fresh.at(-1)
      if (end !== undefined && (last === undefined || end.position > last.position)) {
        entries = [...fresh]
      }
      return fresh
    },
    wait(after, timeoutMs, signal) {
      const last = entries.at(-1)
      if (signal.aborted || (last !== undefined && last.position > after)) return Promise.resolve()
      return new Promise((resolve) => {
        const done = (): void => {
          clearTimeout(timeout)
          signal.removeEventListener('abort', done)
          waiting.delete(done)
          resolve()
        }
        const timeout = setTimeout(done, timeoutMs)
        signal.addEventListener('abort', done)
        waiting.add(done)
        if (again) refreshing ??= refresh()
      })
    },
    sizes: () => ({ waiting: waiting.size, entries: entries.length }),
    stop: () => clearInterval(timer),
  }
}
