import { createBatcher } from './batcher.ts'

/** Runs work when its turn comes, in the order of asking. */
export type Semaphore = <Result>(work: () => Promise<Result>) => Promise<Result>

/** How many wait at the most; further ones are refused with `unavailable`. */
const WAITING_MAX = 10_000

/**
 * Lets so many in at once. Work that waits for rows or locks holds a connection meanwhile: without
 * a bound, much of it takes the whole pool, and payments then wait for connections.
 *
 * Not cockatiel's bulkhead: between two that wait, that lets in whoever comes just then, and puts the
 * one whose turn it was back to the end of the queue.
 */
export function createSemaphore(atOnceMax: number): Semaphore {
  const enter = createBatcher<() => Promise<unknown>, unknown>({
    run: async (works) => Promise.all(works.map((work) => work())),
    itemsMax: 1,
    batchesMax: atOnceMax,
    queueMax: WAITING_MAX,
  })
  return async <Result>(work: () => Promise<Result>) => (await enter(work)) as Result
}
