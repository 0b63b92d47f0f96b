import { Fault } from '../core/errors.ts'

/** Bounds of a batcher. */
interface BatcherOptions<Item, Result> {
  /** Writes one batch; the results are in the order of the items. */
  readonly run: (items: readonly Item[]) => Promise<readonly Result[]>
  /** How many items a batch holds at the most. */
  readonly itemsMax: number
  /** How many batches are under way at once. */
  readonly batchesMax: number
  /** How many items wait at the most; further ones are refused with `unavailable`. */
  readonly queueMax: number
  /**
   * How long the first item of a batch that is not full waits for others. Absent: not at all. For
   * bookkeeping that nobody waits for.
   */
  readonly gatherMs?: number
}

interface Waiting<Item, Result> {
  readonly item: Item
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

/**
 * Turns many calls into few statements. Calls that arrive while batches are under way form the
 * next one. Unless it gathers, there is no timer: an idle batcher starts at the end of the current
 * turn of the event loop.
 *
 * Written by hand: the batchers that there are wait for a time or a number, and so add to every call
 * of an idle service.
 */
export function createBatcher<Item, Result>(
  options: BatcherOptions<Item, Result>,
): (item: Item) => Promise<Result> {
  let waiting: Waiting<Item, Result>[] = []
  let underWay = 0
  let scheduled = false

  const start = (): void => {
    scheduled = false
    while (waiting.length > 0 && underWay < options.batchesMax) {
      const batch = waiting.slice(0, options.itemsMax)
      waiting = waiting.slice(options.itemsMax)
      underWay += 1
      void write(batch)
    }
  }
  const write = async (batch: readonly Waiting<Item, Result>[]): Promise<void> => {
    try {
      const results = await options.run(batch.map((call) => call.item))
      batch.forEach((call, index) => {
        call.resolve(results[index] as Result)
      })
    } catch (error) {
      for (const call of batch) call.reject(error)
    } finally {
      underWay -= 1
      if (options.gatherMs === undefined || waiting.length >= options.itemsMax) start()
      else schedule()
    }
  }
  const schedule = (): void => {
    if (scheduled || waiting.length === 0 || underWay >= options.batchesMax) return
    scheduled = true
    // After the input that is ready now was read, so that it shares one statement.
    if (options.gatherMs === undefined) setImmediate(start)
    else setTimeout(start, options.gatherMs)
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
