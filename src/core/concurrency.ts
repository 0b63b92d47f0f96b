import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * Waits for a promise for at most `limitMs` milliseconds.
 *
 * @returns whether it resolved in time; rejects if the promise does
 */
export async function withTimeout(promise: Promise<unknown>, limitMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, limitMs, false)
  })
  try {
    return await Promise.race([promise.then(() => true), timeout])
  } finally {
    clearTimeout(timer)
  }
}

/** Waits for a promise, or until a signal aborts. */
export async function untilAborted(promise: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const ended = new AbortController()
  const aborted = new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { signal: ended.signal })
  })
  try {
    await Promise.race([promise, aborted])
  } finally {
    ended.abort()
  }
}

/** A result and when it was computed, by `performance.now()`. */
interface Dated<Value> {
  readonly value: Value
  readonly atMs: number
}

/**
 * Shares a result that is costly to compute: concurrent callers, and callers within the period after the computation began,
 * get the same result, so that many callers cost no more than one. Failures are shared too.
 *
 * @param compute may return a result with an earlier time
 */
export function shareResult<Value>(
  compute: () => Promise<Dated<Value>>,
  periodMs: number,
  now: () => number = () => performance.now(),
): () => Promise<Dated<Value>> {
  let current: { result: Promise<Dated<Value>>; untilMs: number } | undefined
  return () => {
    const beganMs = now()
    if (current !== undefined && beganMs < current.untilMs) return current.result
    const next = { result: compute(), untilMs: Number.POSITIVE_INFINITY }
    current = next
    next.result.then(
      ({ atMs }) => {
        next.untilMs = atMs + periodMs
      },
      () => {
        next.untilMs = beganMs + periodMs
      },
    )
    return next.result
  }
}

/**
 * Processes several items concurrently, in order. After a failure, no further item is started.
 *
 * @param concurrencyMax the most items that are processed at once
 * @throws the first failure, after all work has ended
 */
export async function forEachConcurrently<Item>(
  items: Iterable<Item> | AsyncIterable<Item>,
  concurrencyMax: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const iterator =
    Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
  let failure: { readonly error: unknown } | undefined
  const worker = async (): Promise<void> => {
    while (failure === undefined) {
      try {
        const next = await iterator.next()
        if (next.done) return
        await work(next.value)
      } catch (error) {
        failure ??= { error }
      }
    }
  }
  await Promise.all(Array.from({ length: concurrencyMax }, worker))
  if (failure !== undefined) throw failure.error
}

/** The number of items that are processed before other work gets its turn. */
const CHUNK_ITEMS = 50

/** Maps many items without blocking the event loop for long. */
export async function inChunks<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Result,
): Promise<Result[]> {
  const results: Result[] = []
  for (const item of items) {
    results.push(map(item))
    if (results.length % CHUNK_ITEMS === 0) await nextTurn()
  }
  return results
}
