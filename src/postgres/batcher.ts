import { Fault } from '../core/errors.ts'

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
}

interface Waiting<Item, Result> {
  readonly item: Item
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
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
  let waiting: Waiting<Item, Result>[] = []
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
    try {
      const results = await options.run(batch.map((call) => call.item))
      batch.forEach((call, index) => {
        const result = results[index] as Result | Failure
        if (result instanceof Failure) call.reject(result.error)
        else call.resolve(result)
      })
    } catch (error) {
      for (const call of batch) call.reject(error)
    } finally {
      inProgress -= 1
      if (options.lingerMs === undefined || waiting.length >= options.itemsMax) start()
      else schedule()
    }
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
      waiting.push({ item, resolve, reject })
      schedule()
    })
}
