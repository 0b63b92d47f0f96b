import type { Logger } from 'pino'
import { Fault } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import type { Database } from '../postgres/orm.ts'
import { encodeCursor } from './cursor.ts'
import { readLogState, staleCursor } from './log-state.ts'
import { toEventItem } from './message.ts'
import { readLog } from './read-log.ts'
import { type TailEntry, TailWindow } from './tail-window.ts'

/** The most events of one read of the log, and of one read of a subscriber. */
const READ_MAX = 500
const TAKE_MAX = 64

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

  constructor(database: Database, log: Logger) {
    this.#database = database
    this.#log = log
    this.#loop = createLoop({
      name: 'event tail',
      log,
      turn: async () => void (await this.#poll()),
    })
    this.#loop.start()
  }

  /** Call it when the log has grown, or may have. */
  wake(): void {
    this.#grown = true
    if (this.#waiting.size === 0 || this.#refreshing) return
    this.#refreshing = true
    void this.#refresh()
  }

  /**
   * The next events after a position, from memory if they are there, otherwise from the database.
   * An empty result means that there are none yet.
   *
   * @throws Fault stale_cursor if a new epoch has begun, expired_cursor if retention deleted the
   * next events
   */
  async read(after: bigint, epoch: number): Promise<readonly TailEntry[]> {
    this.#epoch ??= epoch
    if (epoch < this.#epoch) {
      const { orm } = this.#database
      throw await staleCursor(orm, { epoch, position: after }, await readLogState(orm))
    }
    if (epoch > this.#epoch) {
      this.#window.clear()
      this.#epoch = epoch
    }
    const held = this.#window.after(after, TAKE_MAX)
    if (held !== undefined) return held
    const fresh = await this.#load(after, epoch, TAKE_MAX)
    const { last } = this.#window
    const end = fresh.at(-1)
    // If memory is empty or behind this reader, it starts again with these events.
    if (end !== undefined && (last === undefined || end.position > last.position)) {
      this.#window.clear()
      this.#window.append(fresh)
    }
    return fresh
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

  /** Reads the events after the last one in memory, while subscribers wait. */
  async #refresh(): Promise<void> {
    try {
      while (this.#grown && this.#waiting.size > 0) {
        this.#grown = false
        const { last } = this.#window
        if (last !== undefined && this.#epoch !== undefined) {
          const fresh = await this.#load(last.position, this.#epoch, READ_MAX)
          if (this.#window.last === last) this.#window.append(fresh)
          if (fresh.length === READ_MAX) this.#grown = true
        }
        this.#wakeAll()
      }
    } catch (error) {
      this.#window.clear()
      this.#log.warn({ err: error }, 'reading the event log failed; retrying')
    } finally {
      this.#refreshing = false
    }
  }

  async #poll(): Promise<void> {
    this.wake()
    if (this.#waiting.size === 0) return
    const state = await readLogState(this.#database.orm).catch(() => undefined)
    if (state === undefined || state.epoch === this.#epoch) return
    if (this.#epoch !== undefined) this.#window.clear()
    this.#epoch = state.epoch
    this.#wakeAll()
  }

  #wakeAll(): void {
    const woken = this.#waiting
    this.#waiting = new Set()
    for (const resolve of woken) resolve()
  }

  async #load(after: bigint, epoch: number, limit: number): Promise<TailEntry[]> {
    const rows = await readLog(this.#database.pool, after, limit)
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
}

function expired(oldest: bigint, epoch: number): Fault {
  const cursor = encodeCursor({ epoch, position: oldest - 1n })
  return new Fault(
    'expired_cursor',
    'The next events were deleted; the error details have the oldest valid cursor',
    { facts: { cursor } },
  )
}
