import { isRetryable } from './is-retryable.ts'

/** Observes the batches of a batcher. */
export interface BatchObserver {
  /** A batch starts. @returns what to call when it ends, with its error if it failed */
  start(itemCount: number): (error?: unknown) => void
}

/** Watches the batches of a batcher for those that the database does not complete. */
export interface BatchWatch extends BatchObserver {
  /** Whether a batch waits for the database, or the latest to end did so in vain. */
  stuck(): boolean
}

/** A batch takes milliseconds. */
const STUCK_MS = 2_000

/** After a batch that failed, the next one, or this time, shows whether payments are recorded again. */
const RECENT_MS = 15_000

export function createBatchWatch(): BatchWatch {
  const running = new Set<{ readonly atMs: number }>()
  let failedAtMs = Number.NEGATIVE_INFINITY
  return {
    start() {
      const batch = { atMs: performance.now() }
      running.add(batch)
      return (error) => {
        running.delete(batch)
        if (error === undefined) failedAtMs = Number.NEGATIVE_INFINITY
        else if (isRetryable(error)) failedAtMs = performance.now()
      }
    },
    stuck() {
      const nowMs = performance.now()
      // In the order of their starts.
      const [oldest] = running
      const waits = oldest !== undefined && nowMs - oldest.atMs > STUCK_MS
      return waits || nowMs - failedAtMs < RECENT_MS
    },
  }
}
