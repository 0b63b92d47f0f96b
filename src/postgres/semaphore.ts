import { createBatcher } from './batcher.ts'

/** Runs work with bounded concurrency, in the order of the calls. */
export type Semaphore = <Result>(work: () => Promise<Result>) => Promise<Result>

/** The maximum number of waiting calls; further calls are rejected with `unavailable`. */
const WAITING_MAX = 10_000

/** How long a call may wait. Longer than the work, which is several statements with their own deadlines. */
const DEADLINE_MS = 120_000

/**
 * Creates a semaphore for work that holds a connection while it waits for rows or locks. Without a
 * bound, such work would take the whole pool, and payments would wait for connections.
 *
 * cockatiel's bulkhead is not used, because it admits new calls before waiting ones, and moves the call whose turn it was to
 * the end of the queue.
 *
 * @param concurrencyMax how many calls run at once
 */
export function createSemaphore(concurrencyMax: number): Semaphore {
  const enter = createBatcher<() => Promise<unknown>, unknown>({
    run: async (works) => Promise.all(works.map((work) => work())),
    itemsMax: 1,
    batchesMax: concurrencyMax,
    queueMax: WAITING_MAX,
    deadlineMs: DEADLINE_MS,
  })
  return async <Result>(work: () => Promise<Result>) => (await enter(work)) as Result
}
