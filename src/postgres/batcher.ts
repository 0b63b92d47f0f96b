import { Fault } from '../core/errors.ts'
import type { BatchWatch } from './batch-watch.ts'

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
  /** Watches each batch. */
  readonly watch?: BatchWatch | undefined
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
  const { deadlineMs = DEADLINE_MS } = options
  let waiting: Waiting<Item, Result>[] = []
  /** Every caller without a result, in the order of the calls. */
  const unsettled = new Set<Waiting<Item, Result>>()
  let timer: NodeJS.Timeout | undefined
  let inProgress = 0
  let scheduled = false

  const start = (): void => {
    scheduled = false
    while (waiting.length > 0 && inProgress < options.batchesMax) {
      const batch = waiting.slice(0, options.itemsMax)
      waiting = waiting.slice(options.itemsMax)
      inProgress += 1
      void write(batch)
    }
  }
  const write = async (batch: readonly Waiting<Item, Result>[]): Promise<void> => {
    const ended = options.watch?.start()
    const leave = takePlace()
    try {
      const results = await options.run(batch.map((call) => call.item))
      batch.forEach((call, index) => {
        unsettled.delete(call)
        const result = results[index] as Result | Failure
        if (result instanceof Failure) call.reject(result.error)
        else call.resolve(result)
      })
      ended?.()
    } catch (error) {
      ended?.(error)
      for (const call of batch) {
        unsettled.delete(call)
        call.reject(error)
      }
    } finally {
      leave()
    }
  }
  /** @returns what leaves the place again; the deadline does so too */
  const takePlace = (): (() => void) => {
    let left = false
    const leave = (): void => {
      clearTimeout(late)
      if (left) return
      left = true
      inProgress -= 1
      if (options.lingerMs === undefined || waiting.length >= options.itemsMax) start()
      else schedule()
    }
    const late = setTimeout(() => {
      rejectLate()
      leave()
    }, deadlineMs).unref()
    return leave
  }
  const rejectLate = (): void => {
    clearTimeout(timer)
    timer = undefined
    // Timers may be a millisecond early.
    const untilMs = performance.now() + 1
    for (const call of unsettled) {
      if (call.untilMs > untilMs) break
      unsettled.delete(call)
      const text = 'The service cannot reach its database in time; try again shortly'
      call.reject(new Fault('unavailable', text, { retryAfterSeconds: 1 }))
    }
    waiting = waiting.filter((call) => unsettled.has(call))
    watchDeadlines()
  }
  const watchDeadlines = (): void => {
    const [first] = unsettled
    if (first === undefined || timer !== undefined) return
    timer = setTimeout(rejectLate, Math.max(1, first.untilMs - performance.now())).unref()
  }
  const schedule = (): void => {
    if (scheduled || waiting.length === 0 || inProgress >= options.batchesMax) return
    scheduled = true
    // Waits until the input that is ready now has been read, so that it shares one statement.
    if (options.lingerMs === undefined) setImmediate(start)
    else setTimeout(start, options.lingerMs)
  }
  return (item) =>
    new Promise((resolve, reject) => {
      if (waiting.length >= options.queueMax) {
        reject(new Fault('unavailable', 'Too many calls are waiting', { retryAfterSeconds: 1 }))
        return
      }
      const call = { item, resolve, reject, untilMs: performance.now() + deadlineMs }
      waiting.push(call)
      unsettled.add(call)
      watchDeadlines()
      schedule()
    })
}
