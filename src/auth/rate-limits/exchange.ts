import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { EXCHANGE_MS, type SharedBucket } from './shared-bucket.ts'
import type { RateLimit } from './token-bucket.ts'

/** What an instance spent of a bucket since it last told. */
export interface Spending {
  readonly name: string
  readonly spent: number
  readonly limit: RateLimit
}

/** Takes from the common buckets. @returns the tokens each then holds, by name */
export type Share = (spendings: readonly Spending[]) => Promise<ReadonlyMap<string, number>>

/** Tells the other instances what is spent here, and learns what they spend, in the background. */
export interface Exchange {
  /** A bucket has something to tell. Cheap, and does not wait. */
  readonly tell: (bucket: SharedBucket, urgent: boolean) => void
  /** Begins no more exchanges, and waits for the one under way. */
  stop(): Promise<void>
}

interface Options {
  readonly share: Share
  readonly clock: Clock
  readonly log: Logger
}

/** How soon an exchange that is urgent follows the one before. */
export const URGENT_MS = 25

/** How long to wait when the others cannot be told. */
const RETRY_MS = 1_000

/** How many buckets are told of in one statement; the rest follow in the next. */
const BUCKETS_MAX = 1_000

/** How many buckets wait to be told of. The others hold for this instance by itself meanwhile. */
const BUSY_MAX = 50 * BUCKETS_MAX

/**
 * Requests never wait for this: each instance spends from its own count of a bucket, and a
 * statement every EXCHANGE_MS takes what the busy ones spent from the common buckets, whose level
 * becomes the instance's count. While nothing is spent, nothing is asked.
 *
 * What N instances admit together exceeds the limit by what the other N − 1 spend without having
 * told: at first a quarter of the burst and what comes in until an urgent exchange is over, and
 * while a caller stays at its limit rate × URGENT_MS each. That excess is owed (the common level
 * goes below zero, by one burst at most), so that later admissions make up for it: the rate holds
 * over time, whatever N. While the others cannot be reached, it holds for each by itself.
 *
 * Written by hand: no library shares buckets without asking the database on the way of a request. Nor
 * is it a loop: a timer runs only while something is spent, sooner where that is urgent.
 */
export function createExchange({ share, clock, log }: Options): Exchange {
  const busy = new Set<SharedBucket>()
  let timer: NodeJS.Timeout | undefined
  let timerUrgent = false
  let underWay: Promise<void> | undefined
  let urgent = false
  let failing = false
  let stopped = false

  const add = (bucket: SharedBucket): void => {
    if (busy.size < BUSY_MAX || busy.has(bucket)) busy.add(bucket)
    // It says so again when it next spends.
    else bucket.putBack(bucket.collect())
  }
  const exchange = async (): Promise<void> => {
    const buckets = [...busy].slice(0, BUCKETS_MAX)
    for (const bucket of buckets) busy.delete(bucket)
    urgent = false
    const spent = buckets.map((bucket) => bucket.collect())
    try {
      const levels = await share(sumByName(buckets, spent))
      const nowMs = clock.now()
      for (const bucket of buckets) {
        const level = levels.get(bucket.name)
        if (level !== undefined) bucket.hear(level, nowMs)
      }
      failing = false
    } catch (error) {
      for (const [index, bucket] of buckets.entries()) {
        bucket.putBack(spent[index] ?? 0)
        add(bucket)
      }
      if (!failing) log.warn({ err: error }, 'rate limits hold for each instance by itself')
      failing = true
    }
  }
  const schedule = (): void => {
    if (stopped || underWay !== undefined || busy.size === 0) return
    const soon = urgent && !failing
    if (timer !== undefined && (timerUrgent || !soon)) return
    clearTimeout(timer)
    timerUrgent = soon
    timer = setTimeout(run, failing ? RETRY_MS : soon ? URGENT_MS : EXCHANGE_MS)
  }
  const run = (): void => {
    timer = undefined
    underWay = exchange().finally(() => {
      underWay = undefined
      schedule()
    })
  }
  return {
    tell(bucket, isUrgent) {
      add(bucket)
      urgent ||= isUrgent
      schedule()
    },
    async stop() {
      stopped = true
      clearTimeout(timer)
      await underWay
    },
  }
}

/** A bucket that was forgotten and opened again has a namesake, and a statement takes a name once. */
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
