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

/** Stands in place of a result: only this call of the batch fails. */
class Failure {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

/** The statement and the bounds of a batcher. */
interface BatcherOptions<Item, Result> {
  /** Writes one batch; the results are in the order of the items. */
  readonly run: (items: readonly Item[]) => Promise<readonly (Result | Failure)[]>
  /** The maximum number of items in a batch; absent: 256. */
  readonly itemsMax?: number
  /** The maximum number of concurrent batches; absent: 2. */
  readonly batchesMax?: number
  /** The maximum number of waiting items; further items are rejected with `unavailable`. Absent: 20,000. */
  readonly queueMax?: number
  /**
   * How long an incomplete batch waits for further items. Absent: not at all. Only for results that no
   * caller of an API waits for.
   */
  readonly lingerMs?: number
  /**
   * The longest time that a caller waits, and that a batch counts as in progress. The caller then gets
   * `unavailable`; its item may still be written.
   */
  readonly deadlineMs?: number
  /** Observers of all batches. */
  readonly observers?: readonly BatchObserver[] | undefined
}

const DEFAULTS = { itemsMax: 256, batchesMax: 2, queueMax: 20_000 }

/** Longer than the deadlines of two hot statements and the wait for a connection. */
const DEADLINE_MS = 12_000

interface Waiting<Item, Result> {
  readonly item: Item
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
  readonly untilMs: number
}

/**
 * Turns many calls into few statements. Calls that arrive while batches are in progress form the
 * next batch. Without `lingerMs` there is no timer: an idle batcher starts a batch at the end of the current
 * turn of the event loop.
 *
 * Written by hand, because existing libraries wait for a time or a count, which delays every call of an idle
 * service.
 */
export function createBatcher<Item, Result>(
  options: BatcherOptions<Item, Result>,
): (item: Item) => Promise<Result> {
  const batcher = new Batcher(options)
  return (item) => batcher.add(item)
}

class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result> & typeof DEFAULTS
  readonly #deadlineMs: number
  /** Runs batches outside of any request: a batch belongs to all of its callers. */
  readonly #apart = outsideOfRequests()
  #waiting: Waiting<Item, Result>[] = []
  /** Every caller without a result, in the order of the calls. */
  readonly #unsettled = new Set<Waiting<Item, Result>>()
  #timer: NodeJS.Timeout | undefined
  #inProgress = 0
  #scheduled = false

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = { ...DEFAULTS, ...options }
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

  /** Counts a batch as in progress. @returns a function that ends this; the deadline ends it too */
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
  /** The committed result. After it is set, an error of the batch no longer fails the call. */
  result: Result | undefined
  /** The error of a call without a result. */
  error: unknown
}

/** Like the options of a batcher, but `run` sets the results of calls. It runs again for calls without a result. */
interface Options<Item, Result> extends Omit<BatcherOptions<Item, Result>, 'run'> {
  readonly run: (calls: readonly Call<Item, Result>[]) => Promise<void>
}

/**
 * A batcher that halves a failed batch until the failing call is alone, so that only this call fails. If the database is
 * unavailable, all calls without a result fail at once.
 *
 * The work is bounded: at most two runs for each call, and about 2 log₂ n runs for one bad call among n.
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
        // Throws so that the observers see that the whole batch failed.
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
 * Runs a statement that may fail. `pool.query` closes its connection after any error. This keeps the connection if only the
 * statement is at fault, so that halving a batch opens no connections.
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
  /** Called when a batch starts. @returns a function to call when the batch ends, with the error if it failed */
  start(itemCount: number): (error?: unknown) => void
}

/** Watches the batches of a batcher to detect that the database does not complete them. */
export interface BatchWatch extends BatchObserver {
  /** Whether a batch has been waiting for the database, or the last batch failed. */
  stuck(): boolean
}

/** A batch that takes longer is stuck; batches normally take milliseconds. */
const STUCK_MS = 2_000

/** A failed batch counts until the next batch ends, or until this time has passed. */
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
      // `running` is in the order in which the batches started.
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

/** The buckets of batch sizes; no batch has more than 256 items. */
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
