import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { SubscribeResponse } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { Fault } from '../core/errors.ts'
import { createLoop } from '../core/loop.ts'
import { type Cursor, tagOf } from './cursor.ts'
import { checkTag, expiredCursor, readLogState, toEpoch } from './log-state.ts'
import { toEventItem } from './message.ts'
import { type LogEntry, readLog } from './read-log.ts'

/** The most events in memory, and the most bytes of their stored payloads. */
const ENTRIES_MAX = 4_096
const BYTES_MAX = 16 * 1024 * 1024

/** The most events of one read of the log, and of one read of a subscriber. */
const READ_MAX = 500
const TAKE_MAX = 64

/** An event for subscribers. All of them share the item, which is built once. */
export interface TailEntry {
  readonly position: bigint
  readonly tag: string
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
   * The next events after a place, from memory if they are there, otherwise from the database.
   * Without entries, there are none yet.
   *
   * @returns `epoch`: the epoch of the log, in which the place is valid too
   * @throws Fault stale_cursor if events up to the place were lost in a failover or a restore,
   * expired_cursor if retention deleted the next events
   */
  read(after: Cursor): Promise<TailPage>
  /** Resolves when there may be events after the position, after the timeout, or on abort. */
  wait(after: bigint, timeoutMs: number, signal: AbortSignal): Promise<void>
  /** The number of waiting subscribers, and of events in memory. */
  sizes(): { readonly waiting: number; readonly entries: number }
  stop(): Promise<void>
}

/** What a subscriber reads next. */
interface TailPage {
  readonly epoch: number
  readonly entries: readonly TailEntry[]
}

export function createTail(pool: Pool, log: Logger): Tail {
  let entries: TailEntry[] = []
  let bytes = 0
  let currentEpoch: number | undefined
  let waiting = new Set<() => void>()
  let refreshing = false
  let grown = false

  /** Reads from the database. @throws Fault stale_cursor, expired_cursor, unavailable */
  const load = async (after: Cursor, limit: number): Promise<TailPage> => {
    const { epoch, entries: found } = await readLog(pool, after.position, limit + 1)
    const first = found[0]
    const seen = first?.position === after.position ? first : undefined
    const next = seen === undefined ? found : found.slice(1)
    const isNext = next[0] === undefined || next[0].position === after.position + 1n
    const isSame = seen === undefined || after.tag === '' || after.tag === tagOf(seen.eventId)
    // An event that is not there, before one that is, was deleted by retention.
    if (epoch === after.epoch && isNext && isSame) return toPage(epoch, next)
    const state = await readLogState(pool)
    const place = await toEpoch(pool, after, state)
    if (seen !== undefined) checkTag(place, seen.eventId, state)
    if (place.position < state.floor) throw expiredCursor(state.epoch, state.floor)
    // If the epoch began between the two reads, the next read has the events.
    return toPage(state.epoch, epoch === state.epoch && isNext ? next : [])
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
  /** Forgets the events of another epoch, or of a log that was restored. */
  const restart = (epoch: number | undefined): void => {
    clear()
    currentEpoch = epoch
    wakeAll()
  }
  /** Reads the events after the last one in memory, while subscribers wait. */
  const refresh = async (): Promise<void> => {
    try {
      while (grown && waiting.size > 0) {
        grown = false
        const last = entries.at(-1)
        if (last !== undefined && currentEpoch !== undefined) {
          const { position, tag } = last
          const fresh = await load({ epoch: currentEpoch, position, tag }, READ_MAX)
          if (fresh.epoch !== currentEpoch) restart(fresh.epoch)
          else if (entries.at(-1) === last) append(fresh.entries)
          if (fresh.entries.length === READ_MAX) grown = true
        }
        wakeAll()
      }
    } catch (error) {
      log.warn({ err: error }, 'reading the event log failed; retrying')
      if (error instanceof Fault) restart(undefined)
      else clear()
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
    const state = await readLogState(pool).catch(() => undefined)
    if (state === undefined) return
    const last = entries.at(-1)
    const isShorter = last !== undefined && last.position > state.end.position
    if (state.epoch !== currentEpoch || isShorter) restart(state.epoch)
  }
  const loop = createLoop({ name: 'event tail', log, turn: async () => void (await poll()) })
  loop.start()
  return {
    wake,
    async read(after) {
      const first = entries[0]
      if (first !== undefined && after.epoch === currentEpoch) {
        // Positions have no gaps, so the index follows from the position.
        const at = Number(after.position - first.position)
        const seen = entries[at]
        const isSame = seen !== undefined && (after.tag === '' || after.tag === seen.tag)
        if (at === -1 || isSame) {
          return { epoch: after.epoch, entries: entries.slice(at + 1, at + 1 + TAKE_MAX) }
        }
      }
      const page = await load(after, TAKE_MAX)
      if (page.epoch !== currentEpoch) restart(page.epoch)
      const last = entries.at(-1)
      const end = page.entries.at(-1)
      // If memory is empty or behind this reader, it starts again with these events.
      if (end !== undefined && (last === undefined || end.position > last.position)) {
        clear()
        append(page.entries)
      }
      return page
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

function toPage(epoch: number, entries: readonly LogEntry[]): TailPage {
  return {
    epoch,
    entries: entries.map((entry) => ({
      position: entry.position,
      tag: tagOf(entry.eventId),
      kind: entry.kind,
      businessId: entry.businessId,
      live: entry.live,
      bytes: entry.payload.length,
      item: toEventItem(entry, epoch),
    })),
  }
}
