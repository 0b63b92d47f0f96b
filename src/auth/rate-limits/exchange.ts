import type { Pool } from 'pg'
import { textArray } from '../../postgres/binary-arrays.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { EXCHANGE_MS, FULL_SECONDS_MAX, type RateLimit, type SharedBucket } from './token-bucket.ts'

/** The tokens that an instance spent from a bucket since its last exchange. */
export interface Spending {
  readonly name: string
  readonly spent: number
  readonly limit: RateLimit
}

/** Spends from the shared buckets. @returns the remaining tokens of each bucket, by name */
export type Share = (spendings: readonly Spending[]) => Promise<ReadonlyMap<string, number>>

/** Shares the spent tokens with the other instances in the background. */
interface Exchange {
  /** Reports that a bucket has spent tokens. Returns at once. */
  readonly report: (bucket: SharedBucket, urgent: boolean) => void
  /** Starts no more exchanges, and waits for the one in progress. */
  stop(): Promise<void>
}

/** The delay of an urgent exchange after the previous one. */
export const URGENT_MS = 25

/** The delay after an exchange failed. */
const RETRY_MS = 1_000

/** The most buckets in one statement. */
const BUCKETS_MAX = 1_000

/** The most buckets that wait for an exchange. Until there is room, the limits of further buckets hold per instance. */
const PENDING_MAX = 50 * BUCKETS_MAX

const UNSHARED = 'rate limits cannot be shared: each instance enforces them separately'

/**
 * Requests never wait for the database: each instance spends from its own copy of a bucket. Every EXCHANGE_MS, a statement
 * subtracts the spent tokens from the shared buckets, and the instance adopts the shared level. While nothing is spent, no
 * statement runs.
 *
 * N instances together exceed a limit by the tokens that the other N − 1 instances spend before they report them: at
 * first a quarter of the burst plus the requests that arrive until an urgent exchange completes, and, while a caller stays
 * at its limit, rate × URGENT_MS per instance. The excess is a debt: the shared level falls below zero, by one burst at most,
 * and later requests are refused until it is repaid. Over time the rate therefore holds for any N. While the database is
 * unavailable, the limit holds for each instance separately.
 *
 * Written by hand, because no library shares buckets without a database query in the request path. It does not use `createLoop`
 * either: the timer runs only while tokens are spent, and fires sooner if an exchange is urgent.
 */
export function createExchange(
  { database, clock, log }: Runtime,
  share: Share = createShareBuckets(database.relaxedPool),
): Exchange {
  const pending = new Set<SharedBucket>()
  let timer: NodeJS.Timeout | undefined
  let timerUrgent = false
  let current: Promise<void> | undefined
  let urgent = false
  let failing = false
  let stopped = false

  const add = (bucket: SharedBucket): void => {
    if (pending.size < PENDING_MAX || pending.has(bucket)) pending.add(bucket)
    // The bucket reports again the next time it spends.
    else bucket.restore(bucket.collect())
  }
  const exchange = async (): Promise<void> => {
    const buckets = [...pending].slice(0, BUCKETS_MAX)
    for (const bucket of buckets) pending.delete(bucket)
    urgent = false
    const spent = buckets.map((bucket) => bucket.collect())
    try {
      const levels = await share(sumByName(buckets, spent))
      applyLevels(buckets, levels, clock.now())
      failing = false
    } catch (error) {
      for (const [index, bucket] of buckets.entries()) {
        bucket.restore(spent[index] ?? 0)
        add(bucket)
      }
      if (!failing) log.warn({ err: error }, UNSHARED)
      failing = true
    }
  }
  const schedule = (): void => {
    if (stopped || current !== undefined || pending.size === 0) return
    const soon = urgent && !failing
    if (timer !== undefined && (timerUrgent || !soon)) return
    clearTimeout(timer)
    timerUrgent = soon
    timer = setTimeout(run, failing ? RETRY_MS : soon ? URGENT_MS : EXCHANGE_MS)
  }
  const run = (): void => {
    timer = undefined
    current = exchange().finally(() => {
      current = undefined
      schedule()
    })
  }
  return {
    report(bucket, isUrgent) {
      add(bucket)
      urgent ||= isUrgent
      schedule()
    },
    async stop() {
      stopped = true
      clearTimeout(timer)
      await current
    },
  }
}

function applyLevels(
  buckets: readonly SharedBucket[],
  levels: ReadonlyMap<string, number>,
  nowMs: number,
): void {
  for (const bucket of buckets) {
    const level = levels.get(bucket.name)
    if (level !== undefined) bucket.applyLevel(level, nowMs)
  }
}

/** An evicted bucket may exist twice under one name, but a statement accepts a name only once. */
function sumByName(
  buckets: readonly SharedBucket[],
  spent: readonly number[],
): readonly Spending[] {
  const sums = new Map<string, Spending>()
  for (const [index, { name, limit }] of buckets.entries()) {
    sums.set(name, { name, spent: (sums.get(name)?.spent ?? 0) + (spent[index] ?? 0), limit })
  }
  return [...sums.values()]
}

/** The interval between two deletions of unused buckets. */
const CLEAN_INTERVAL_MS = 600_000

/**
 * Keeps the shared buckets in PostgreSQL, by the database's clock.
 *
 * @param pool a pool whose commits do not wait for the disk
 */
export function createShareBuckets(pool: Pool): Share {
  let cleanedAtMs = performance.now()
  return async (spendings) => {
    const levels = await spend(pool, spendings)
    if (performance.now() - cleanedAtMs > CLEAN_INTERVAL_MS) {
      cleanedAtMs = performance.now()
      await deleteIdle(pool)
    }
    return levels
  }
}

/** Spends from all buckets in one statement, by the same rule as TokenBucket. */
async function spend(pool: Pool, spendings: readonly Spending[]) {
  const result = await pool.query<{ name: string; tokens: number }>({
    name: 'rate-bucket-spend',
    // Rows are locked in the order of their names, so that instances cannot deadlock. A statement that waited for a lock has
    // an earlier time than the row; if it is earlier by more than a second, the clock was set back.
    text: `insert into rate_bucket as b (name, tokens, per_second, burst, at)
      select name, burst - spent, per_second, burst, now()
      from unnest($1::text[], $2::float8[], $3::float8[], $4::float8[])
        as s(name, spent, per_second, burst)
      order by name
      on conflict (name) do update set
        tokens = greatest(-excluded.burst,
          least(excluded.burst, b.tokens + excluded.per_second
            * greatest(0, extract(epoch from excluded.at - b.at)::float8))
          - (excluded.burst - excluded.tokens)),
        per_second = excluded.per_second,
        burst = excluded.burst,
        at = case when excluded.at < b.at - interval '1 second' then excluded.at
          else greatest(b.at, excluded.at) end
      returning name, tokens`,
    values: [
      textArray(spendings.map(({ name }) => name)),
      spendings.map(({ spent }) => spent),
      spendings.map(({ limit }) => limit.perSecond),
      spendings.map(({ limit }) => limit.burst),
    ],
  })
  return new Map(result.rows.map((row) => [row.name, row.tokens]))
}

/** Deletes buckets that must be full again, even if they were at one burst below zero. */
async function deleteIdle(pool: Pool): Promise<void> {
  await pool.query({
    text: `delete from rate_bucket where name in (
      select name from rate_bucket where at < now() - make_interval(secs => $1)
      order by name for update skip locked)`,
    values: [3 * FULL_SECONDS_MAX],
  })
}
