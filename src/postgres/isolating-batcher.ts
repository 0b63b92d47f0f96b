import { type BatcherOptions, createBatcher, Failure } from './batcher.ts'
import { isRetryable } from './is-retryable.ts'

/** A call of a batch. */
export interface Call<Item, Result> {
  readonly item: Item
  /** Set as soon as it is committed. From then on, no error of the batch fails the call. */
  result: Result | undefined
  /** Why there is no result. */
  error: unknown
}

/** As for a batcher, but `run` sets the results of the calls. It is called again for the others. */
interface Options<Item, Result> extends Omit<BatcherOptions<Item, Result>, 'run'> {
  readonly run: (calls: readonly Call<Item, Result>[]) => Promise<void>
}

/**
 * A batcher whose batches are halved when they fail, until the call at fault is alone and only that
 * one fails. If the database is unavailable, all calls without a result fail at once.
 *
 * Work is bounded: at most two runs a call, and about 2 log₂ n runs for one bad call among n.
 */
export function createIsolatingBatcher<Item, Result>({
  run,
  ...bounds
}: Options<Item, Result>): (item: Item) => Promise<Result> {
  return createBatcher<Item, Result>({
    ...bounds,
    run: async (items) => {
      const calls = items.map((item): Call<Item, Result> => {
        return { item, result: undefined, error: undefined }
      })
      await runIsolated(calls, run)
      return calls.map(({ result, error }) => (result === undefined ? new Failure(error) : result))
    },
  })
}

async function runIsolated<Item, Result>(
  calls: readonly Call<Item, Result>[],
  run: Options<Item, Result>['run'],
): Promise<void> {
  const waiting = [calls]
  for (let part = waiting.pop(); part !== undefined; part = waiting.pop()) {
    try {
      await run(part)
    } catch (error) {
      const open = part.filter((call) => call.result === undefined)
      if (isRetryable(error)) {
        // The whole batch failed, which the watch of batches must know.
        if (calls.every(({ result }) => result === undefined)) throw error
        fail([...open, ...waiting.flat()], error)
        return
      }
      if (part.length === 1) fail(open, error)
      else {
        const middle = Math.ceil(open.length / 2)
        const halves = [open.slice(middle), open.slice(0, middle)]
        waiting.push(...halves.filter((half) => half.length > 0))
      }
    }
  }
}

function fail(calls: readonly Call<unknown, unknown>[], error: unknown): void {
  for (const call of calls) call.error = error
}
