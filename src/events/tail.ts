import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { SubscribeResponse } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { Fault } from '../core/errors.ts'
import { createLoop } from '../core/loop.ts'
import { encodeCursor } from './cursor.ts'
import { readLogState, staleCursor } from './log-state.ts'
import { toEventItem } from './message.ts'
import { readLog } from './read-log.ts'

/** What the tail keeps at the most: events, and bytes of them as they are stored. */
const ENTRIES_MAX = 4_096
const BYTES_MAX = 16 * 1024 * 1024

/** How many events one read of the log brings, and how many a subscriber takes at a time. */
const READ_MAX = 500
const TAKE_MAX = 64

/** An event on its way to subscribers. The item is shared: it is encoded once for all of them. */
export interface TailEntry {
  readonly position: bigint
  readonly kind: string
  readonly businessId: string
  readonly live: boolean
  readonly bytes: number
  readonly item: SubscribeResponse
}

/** The end of the log in memory, shared by the subscribers of this instance. */
export interface Tail {
  /** The log has grown, or it may have. */
  wake(): void
  /**
   * Some events after a position: from memory when they are there, else from the database. None
   * means that there are none yet.
   *
   * @throws Fault stale_cursor when the epoch is over, expired_cursor when the next events were
   * deleted
   */
  read(after: bigint, epoch: number): Promise<readonly TailEntry[]>
  /** Resolves when there may be events after the position, or the time is over, or on abort. */
  wait(after: bigint, timeoutMs: number, signal: AbortSignal): Promise<void>
  /** How many subscribers wait, and how many events are kept. */
  sizes(): { readonly waiting: number; readonly entries: number }
  stop(): Promise<void>
}

export function createTail(pool: Pool, log: Logger): Tail {
  let entries: TailEntry[] = []
  let bytes = 0
  let epochNow: number | undefined
  let waiting = new Set<() => void>()
  let refreshing = false
  let again = false

  const load = async (after: bigint, epoch: number, limit: number): Promise<TailEntry[]> => {
    const rows = await readLog(pool, after, limit)
    const first = rows[0]
    if (first !== undefined && first.position !== after + 1n) throw expired(first.position, epoch)
    return rows.map((row) => ({
      position: row.position,
      kind: row.kind,
      businessId: row.businessId,
      live: row.live,
      bytes: row.payload.length,
      item: toEventItem(row, epoch),
    }))
  }
  const keep = (fresh: readonly TailEntry[]): void => {
    entries.push(...fresh)
    for (const entry of fresh) bytes += entry.bytes
    let drop = 0
    while (entries.length - drop > ENTRIES_MAX || bytes > BYTES_MAX) {
      bytes -= (entries[drop] as TailEntry).bytes
      drop += 1
    }
    // In blocks, as moving what is left costs more than dropping.
    if (drop > 0) entries = entries.slice(drop)
  }
  const forget = (): void => {
    entries = []
    bytes = 0
  }
  const wakeAll = (): void => {
    const woken = waiting
    waiting = new Set()
    for (const resolve of woken) resolve()
  }
  /** Reads on from the last event in memory, while somebody waits for it. */
  const refresh = async (): Promise<void> => {
    try {
      while (again && waiting.size > 0) {
        again = false
        const last = entries.at(-1)
        if (last !== undefined && epochNow !== undefined) {
          const fresh = await load(last.position, epochNow, READ_MAX)
          if (entries.at(-1) === last) keep(fresh)
          if (fresh.length === READ_MAX) again = true
        }
        wakeAll()
      }
    } catch (error) {
      forget()
      log.warn({ err: error }, 'reading the event log failed; trying again')
    } finally {
      refreshing = false
    }
  }
  const wake = (): void => {
    again = true
    if (waiting.size === 0 || refreshing) return
    refreshing = true
    void refresh()
  }
  const poll = async (): Promise<void> => {
    wake()
    if (waiting.size === 0) return
    const state = await readLogState(pool).catch(() => undefined)
    if (state === undefined || state.epoch === epochNow) return
    if (epochNow !== undefined) forget()
    epochNow = state.epoch
    wakeAll()
  }
  const loop = createLoop({ name: 'event tail', log, turn: async () => void (await poll()) })
  loop.start()
  return {
    wake,
    async read(after, epoch) {
      epochNow ??= epoch
      if (epoch < epochNow) {
        throw await staleCursor(pool, { epoch, position: after }, await readLogState(pool))
      }
      if (epoch > epochNow) {
        forget()
        epochNow = epoch
      }
      const first = entries[0]
      if (first !== undefined && first.position <= after + 1n) {
        // Positions are dense, so a place in the log is a place in memory.
        const from = Number(after + 1n - first.position)
        return entries.slice(from, from + TAKE_MAX)
      }
      const fresh = await load(after, epoch, TAKE_MAX)
      const last = entries.at(-1)
      const end = fresh.at(-1)
      // With nothing in memory, or with a reader ahead of it, memory starts anew from here.
      if (end !== undefined && (last === undefined || end.position > last.position)) {
        forget()
        keep(fresh)
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
        if (again) wake()
      })
    },
    sizes: () => ({ waiting: waiting.size, entries: entries.length }),
    stop: loop.stop,
  }
}

function expired(oldest: bigint, epoch: number): Fault {
  const cursor = encodeCursor({ epoch, position: oldest - 1n })
  return new Fault(
    'expired_cursor',
    'The next events were deleted for their age; the oldest cursor is in the details',
    { facts: { cursor } },
  )
}
