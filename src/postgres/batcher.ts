import { Fault } from '../core/errors.ts'
import { outsideOfRequests } from '../core/request-scope.ts'
import type { BatchObserver } from './batch-watch.ts'

/** In place of a result: only this call of the batch fails. */
export class Failure {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

/** Bounds of a batcher. */
export interface BatcherOptions<Item, Result> {
  /** Writes one batch; the results are in the order of the items. */
  readonly run: (items: readonly Item[]) => Promise<readonly (Result | Failure)[]>
  /** The maximum number of items in a batch. */
  readonly itemsMax: number
  /** The maximum number of concurrent batches. */
  readonly batchesMax: number
  /** The maximum number of waiting items; further ones are rejected with `unavailable`. */
  readonly queueMax: number
  /**
   * How long the first item of a batch that is not full waits for others. Absent: not at all. Only
   * for bookkeeping whose result no caller waits for.
   */
  readonly lingerMs?: number
  /**
   * How long a caller waits at most, and a batch takes a place at most, in milliseconds. A caller
   * then gets `unavailable`; its item may still be written.
   */
  readonly deadlineMs?: number
  /** Each observes every batch. */
  readonly observers?: readonly BatchObserver[] | undefined
}

/** Longer than two hot statements, of which the first waits for a connection. */
const DEADLINE_MS = 12_000

interface Waiting<Item, Result> {
  readonly item: Item
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
  readonly untilMs: number
}

/**
 * Turns many calls into few statements. Calls that arrive while batches are in progress form the
 * next one. Without `lingerMs` there is no timer: an idle batcher starts at the end of the current
 * turn of the event loop.
 *
 * Written by hand: existing libraries wait for a time or a count, which delays every call of an idle
 * service.
 */
export function createBatcher<Item, Result>(
  options: BatcherOptions<Item, Result>,
): (item: Item) => Promise<Result> {
  const batcher = new Batcher(options)
  return (item) => batcher.add(item)
}

class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>
  readonly #deadlineMs: number
  /** A batch belongs to all its callers, and not to the one that happened to start it. */
  readonly #apart = outsideOfRequests()
  #waiting: Waiting<Item, Result>[] = []
  /** Every caller without a result, in the order of the calls. */
  readonly #unsettled = new Set<Waiting<Item, Result>>()
  #timer: NodeJS.Timeout | undefined
  #inProgress = 0
  #scheduled = false

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options
    this.#deadlineMs = options.deadlineMs ?? DEADLINE_MS
  }

  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length >= this.#options.queueMax) {
        reject(new Fault('unavailable', 'Too many calls are waiting', { retryAfterSeconds: 1 }))
        return
      }
      const call = { item, resolve, reject, untilMs: performance.now() + this.#deadlineMs }
      this.#waiting.push(call)
      this.#unsettled.add(call)
      this.#watchDeadlines()
      this.#schedule()
    })
  }

  #schedule(): void {
    const { batchesMax, lingerMs } = this.#options
    if (this.#scheduled || this.#waiting.length === 0 || this.#inProgress >= batchesMax) return
    this.#scheduled = true
    // Waits until the input that is ready now has been read, so that it shares one statement.
    if (lingerMs === undefined) setImmediate(() => this.#start())
    else setTimeout(() => this.#start(), lingerMs)
  }

  #start(): void {
    const { batchesMax, itemsMax } = this.#options
    this.#scheduled = false
    while (this.#waiting.length > 0 && this.#inProgress < batchesMax) {
      const batch = this.#waiting.slice(0, itemsMax)
      this.#waiting = this.#waiting.slice(itemsMax)
      this.#inProgress += 1
      void this.#write(batch)
    }
  }

  async #write(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    const ends = this.#options.observers?.map((observer) => observer.start(batch.length))
    const leave = this.#takePlace()
    try {
      const results = await this.#apart(() => this.#options.run(batch.map((call) => call.item)))
      batch.forEach((call, index) => {
        this.#unsettled.delete(call)
        const result = results[index] as Result | Failure
        if (result instanceof Failure) call.reject(result.error)
        else call.resolve(result)
      })
      for (const end of ends ?? []) end()
    } catch (error) {
      for (const end of ends ?? []) end(error)
      for (const call of batch) {
        this.#unsettled.delete(call)
        call.reject(error)
      }
    } finally {
      leave()
    }
  }

  /** @returns what leaves the place again; the deadline does so too */
  #takePlace(): () => void {
    const { itemsMax, lingerMs } = this.#options
    let left = false
    const leave = (): void => {
      clearTimeout(late)
      if (left) return
      left = true
      this.#inProgress -= 1
      if (lingerMs === undefined || this.#waiting.length >= itemsMax) this.#start()
      else this.#schedule()
    }
    const late = setTimeout(() => {
      this.#rejectLate()
      leave()
    }, this.#deadlineMs).unref()
    return leave
  }

  #watchDeadlines(): void {
    if (this.#timer !== undefined) return
    const [first] = this.#unsettled
    if (first === undefined) return
    const waitMs = Math.max(1, first.untilMs - performance.now())
    this.#timer = setTimeout(() => this.#rejectLate(), waitMs).unref()
  }

  #rejectLate(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    // Timers may be a millisecond early.
    const untilMs = performance.now() + 1
    for (const call of this.#unsettled) {
      if (call.untilMs > untilMs) break
      this.#unsettled.delete(call)
      const text = 'The service cannot reach its database in time; try again shortly'
      call.reject(new Fault('unavailable', text, { retryAfterSeconds: 1 }))
    }
    this.#waiting = this.#waiting.filter((call) => this.#unsettled.has(call))
    this.#watchDeadlines()
  }
}
