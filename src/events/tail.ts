import type { Logger } from 'pino'
import type { SubscribeResponse } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { Fault } from '../core/errors.ts'
import { createLoop } from '../core/loop.ts'
import type { Database } from '../postgres/orm.ts'
import { encodeCursor } from './cursor.ts'
import { readLogState, staleCursor } from './log-state.ts'
import { toEventItem } from './message.ts'
import { readLog } from './read-log.ts'

/** The most events in memory, and the most bytes of their stored payloads. */
const ENTRIES_MAX = 4_096
const BYTES_MAX = 16 * 1024 * 1024

/** The most events of one read of the log, and of one read of a subscriber. */
const READ_MAX = 500
const TAKE_MAX = 64

/** An event for subscribers. All of them share the item, which is built once. */
export interface TailEntry {
  readonly position: bigint
  readonly kind: string
  readonly businessId: string
  readonly live: boolean
  readonly bytes: number
  readonly item: SubscribeResponse
}

/** The latest events of the log in memory, shared by the subscribers of this instance. */
export interface Tail {
  /** Call it when the log has grown, or may have. */
  wake(): void
  /**
   * The next events after a position, from memory if they are there, otherwise from the database.
   * An empty result means that there are none yet.
   *
   * @throws Fault stale_cursor if a new epoch has begun, expired_cursor if retention deleted the
   * next events
   */
  read(after: bigint, epoch: number): Promise<readonly TailEntry[]>
  /** Resolves when there may be events after the position, after the timeout, or on abort. */
  wait(after: bigint, timeoutMs: number, signal: AbortSignal): Promise<void>
  /** The number of waiting subscribers, and of events in memory. */
  sizes(): { readonly waiting: number; readonly entries: number }
  stop(): Promise<void>
}

export function createTail({ orm, pool }: Database, log: Logger): Tail {
  let entries: TailEntry[] = []
  let bytes = 0
  let currentEpoch: number | undefined
  let waiting = new Set<() => void>()
  let refreshing = false
  let grown = false

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
  const append = (fresh: readonly TailEntry[]): void => {
    entries.push(...fresh)
    for (const entry of fresh) bytes += entry.bytes
    let drop = 0
    while (entries.length - drop > ENTRIES_MAX || bytes > BYTES_MAX) {
      bytes -= (entries[drop] as TailEntry).bytes
      drop += 1
    }
    // Dropped once for each read: copying the remaining entries is the expensive part.
    if (drop > 0) entries = entries.slice(drop)
  }
  const clear = (): void => {
    entries = []
    bytes = 0
  }
  const wakeAll = (): void => {
    const woken = waiting
    waiting = new Set()
    for (const resolve of woken) resolve()
  }
  /** Reads the events after the last one in memory, while subscribers wait. */
  const refresh = async (): Promise<void> => {
    try {
      while (grown && waiting.size > 0) {
        grown = false
        const last = entries.at(-1)
        if (last !== undefined && currentEpoch !== undefined) {
          const fresh = await load(last.position, currentEpoch, READ_MAX)
          if (entries.at(-1) === last) append(fresh)
          if (fresh.length === READ_MAX) grown = true
        }
        wakeAll()
      }
    } catch (error) {
      clear()
      log.warn({ err: error }, 'reading the event log failed; retrying')
    } finally {
      refreshing = false
    }
  }
  const wake = (): void => {
    grown = true
    if (waiting.size === 0 || refreshing) return
    refreshing = true
    void refresh()
  }
  const poll = async (): Promise<void> => {
    wake()
    if (waiting.size === 0) return
    const state = await readLogState(orm).catch(() => undefined)
    if (state === undefined || state.epoch === currentEpoch) return
    if (currentEpoch !== undefined) clear()
    currentEpoch = state.epoch
    wakeAll()
  }
  const loop = createLoop({ name: 'event tail', log, turn: async () => void (await poll()) })
  loop.start()
  return {
    wake,
    async read(after, epoch) {
      currentEpoch ??= epoch
      if (epoch < currentEpoch) {
        throw await staleCursor(orm, { epoch, position: after }, await readLogState(orm))
      }
      if (epoch > currentEpoch) {
        clear()
        currentEpoch = epoch
      }
      const first = entries[0]
      if (first !== undefined && first.position <= after + 1n) {
        // Positions have no gaps, so the index follows from the position.
        const from = Number(after + 1n - first.position)
        return entries.slice(from, from + TAKE_MAX)
      }
      const fresh = await load(after, epoch, TAKE_MAX)
      const last = entries.at(-1)
      const end = fresh.at(-1)
      // If memory is empty or behind this reader, it starts again with these events.
      if (end !== undefined && (last === undefined || end.position > last.position)) {
        clear()
        append(fresh)
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
        if (grown) wake()
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
    'The next events were deleted; the error details have the oldest valid cursor',
    { facts: { cursor } },
  )
}
