import type { Logger } from 'pino'
import { Fault } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import type { Database } from '../postgres/orm.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type Cursor, tagOf } from './cursor.ts'
import { checkTag, expiredCursor, readLogState, toEpoch } from './log-state.ts'
import { toEventItem } from './message.ts'
import { type LogEntry, readLog } from './read-log.ts'
import { type TailEntry, TailWindow } from './tail-window.ts'

/** The most events of one read of the log, and of one read of a subscriber. */
const READ_MAX = 500
const TAKE_MAX = 64

/** The events that a subscriber reads next. */
interface TailPage {
  readonly epoch: number
  readonly entries: readonly TailEntry[]
}

/** The latest events of the log in memory, shared by the subscribers of this instance. */
export class Tail {
  readonly #database: Database
  readonly #log: Logger
  readonly #loop: Loop
  readonly #window = new TailWindow()
  #epoch: number | undefined
  #waiting = new Set<() => void>()
  #refreshing = false
  #grown = false

  constructor({ database, log }: Runtime) {
    this.#database = database
    this.#log = log
    this.#loop = createLoop({
      name: 'event tail',
      log,
      turn: async () => void (await this.#poll()),
    })
    this.#loop.start()
  }

  /** Must be called when the log may have grown. */
  wake(): void {
    this.#grown = true
    if (this.#waiting.size === 0 || this.#refreshing) return
    this.#refreshing = true
    void this.#refresh()
  }

  /**
   * The next events after a place, from memory if they are there, otherwise from the database.
   * Without entries, there are none yet.
   *
   * @returns `epoch`: the epoch of the log, in which the place is valid too
   * @throws Fault stale_cursor if events up to the place were lost in a failover or a restore,
   * expired_cursor if retention deleted the next events, unavailable if the database has just failed
   * over
   */
  async read(after: Cursor): Promise<TailPage> {
    const { epoch } = after
    const held = epoch === this.#epoch ? this.#window.after(after, TAKE_MAX) : undefined
    if (held !== undefined) return { epoch, entries: held }
    const page = await this.#load(after, TAKE_MAX)
    if (page.epoch !== this.#epoch) this.#restart(page.epoch)
    const { last } = this.#window
    const end = page.entries.at(-1)
    // If memory is empty or behind this reader, memory starts again with these events.
    if (end !== undefined && (last === undefined || end.position > last.position)) {
      this.#window.clear()
      this.#window.append(page.entries)
    }
    return page
  }

  /** Resolves when there may be events after the position, after the timeout, or on abort. */
  wait(after: bigint, timeoutMs: number, signal: AbortSignal): Promise<void> {
    const { last } = this.#window
    if (signal.aborted || (last !== undefined && last.position > after)) return Promise.resolve()
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timeout)
        signal.removeEventListener('abort', done)
        this.#waiting.delete(done)
        resolve()
      }
      const timeout = setTimeout(done, timeoutMs)
      signal.addEventListener('abort', done)
      this.#waiting.add(done)
      if (this.#grown) this.wake()
    })
  }

  /** The number of waiting subscribers, and of events in memory. */
  sizes(): { readonly waiting: number; readonly entries: number } {
    return { waiting: this.#waiting.size, entries: this.#window.size }
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  /** Reads the events after the last event in memory, while subscribers wait. */
  async #refresh(): Promise<void> {
    try {
      while (this.#grown && this.#waiting.size > 0) {
        this.#grown = false
        const { last } = this.#window
        if (last !== undefined && this.#epoch !== undefined) {
          const { position, tag } = last
          const fresh = await this.#load({ epoch: this.#epoch, position, tag }, READ_MAX)
          if (fresh.epoch !== this.#epoch) this.#restart(fresh.epoch)
          else if (this.#window.last === last) this.#window.append(fresh.entries)
          if (fresh.entries.length === READ_MAX) this.#grown = true
        }
        this.#wakeAll()
      }
    } catch (error) {
      this.#log.warn({ err: error }, 'reading the event log failed; retrying')
      if (error instanceof Fault) this.#restart(undefined)
      else this.#window.clear()
    } finally {
      this.#refreshing = false
    }
  }

  async #poll(): Promise<void> {
    this.wake()
    if (this.#waiting.size === 0) return
    const state = await readLogState(this.#database.durablePool).catch(() => undefined)
    if (state === undefined) return
    const { last } = this.#window
    const isShorter = last !== undefined && last.position > state.end.position
    if (state.epoch !== this.#epoch || isShorter) this.#restart(state.epoch)
  }

  /** Forgets the events of another epoch, or of a log that was restored. */
  #restart(epoch: number | undefined): void {
    this.#window.clear()
    this.#epoch = epoch
    this.#wakeAll()
  }

  #wakeAll(): void {
    const woken = this.#waiting
    this.#waiting = new Set()
    for (const resolve of woken) resolve()
  }

  /** Reads from the database. @throws Fault stale_cursor, expired_cursor, unavailable */
  async #load(after: Cursor, limit: number): Promise<TailPage> {
    const { durablePool } = this.#database
    const { epoch, entries: found } = await readLog(durablePool, after.position, limit + 1)
    const seen = found[0]?.position === after.position ? found[0] : undefined
    const next = seen === undefined ? found : found.slice(1)
    const isNext = next[0] === undefined || next[0].position === after.position + 1n
    const isSame = seen === undefined || after.tag === '' || after.tag === tagOf(seen.eventId)
    // If an event is missing and a later event is stored, retention has deleted the missing event.
    if (epoch === after.epoch && isNext && isSame) return toPage(epoch, next)
    const state = await readLogState(durablePool)
    const place = await toEpoch(durablePool, after, state)
    if (seen !== undefined) checkTag(place, seen.eventId, state)
    if (place.position < state.floor) throw expiredCursor(state.epoch, state.floor)
    // If the epoch began between the two reads, the next read returns the events.
    return toPage(state.epoch, epoch === state.epoch && isNext ? next : [])
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
