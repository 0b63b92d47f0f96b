import {
  DatabaseError,
  type Pool,
  type QueryConfig,
  type QueryResult,
  type QueryResultRow,
} from 'pg'
import { Counter, Histogram, type Registry } from 'prom-client'
import { Fault } from '../core/errors.ts'
import { outsideOfRequests } from '../core/tracing.ts'
import { isRetryable } from './is-retryable.ts'

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

/**
 * Runs a statement that may be refused. `pool.query` closes its connection at any error; this keeps
 * it if only the statement is at fault, so that halving a batch opens no connections.
 */
export async function runStatement<Row extends QueryResultRow>(
  pool: Pool,
  statement: QueryConfig,
): Promise<QueryResult<Row>> {
  const client = await pool.connect()
  let isUsable = true
  try {
    return await client.query<Row>(statement)
  } catch (error) {
    isUsable = error instanceof DatabaseError && !isRetryable(error)
    throw error
  } finally {
    client.release(!isUsable)
  }
}

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

/** The batchers that are measured. */
type BatcherName =
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
