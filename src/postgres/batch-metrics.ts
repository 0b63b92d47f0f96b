import { Counter, Histogram, type Registry } from 'prom-client'
import type { BatchObserver } from './batch-watch.ts'

/** The batchers that are measured. */
export type BatcherName =
  | 'payments'
  | 'conflicts'
  | 'notifications'
  | 'notification_results'
  | 'payment_sessions'
  | 'webhook_attempts'

/** Creates the observer of a batcher. */
export type ObserveBatches = (batcher: BatcherName) => BatchObserver

/** No batch has more than 256 items. */
const ITEMS_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256]

/** A commit takes a millisecond on a good disk; after 12 s the callers of a batch get `unavailable`. */
const SECONDS_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 12]

/** Measures the batches of batchers. */
export function createBatchMetrics(register: Registry): ObserveBatches {
  const registers = [register]
  const labelNames = ['batcher']
  const items = new Histogram({
    name: 'inflow_batch_items',
    help: 'Items in a batch that one statement writes or reads.',
    labelNames,
    buckets: ITEMS_BUCKETS,
    registers,
  })
  const seconds = new Histogram({
    name: 'inflow_batch_duration_seconds',
    help: 'Duration of a batch, from its start to its commit.',
    labelNames,
    buckets: SECONDS_BUCKETS,
    registers,
  })
  const failures = new Counter({
    name: 'inflow_batch_failures_total',
    help: 'Batches that failed as a whole, most of them because the database was unavailable.',
    labelNames,
    registers,
  })
  return (batcher) => {
    const [size, duration, failed] = [items, seconds, failures].map((metric) =>
      metric.labels(batcher),
    ) as [Histogram.Internal<string>, Histogram.Internal<string>, Counter.Internal]
    for (const histogram of [items, seconds]) histogram.zero({ batcher })
    failed.inc(0)
    return {
      start(itemCount) {
        const startedMs = performance.now()
        size.observe(itemCount)
        return (error) => {
          duration.observe((performance.now() - startedMs) / 1_000)
          if (error !== undefined) failed.inc()
        }
      },
    }
  }
}
