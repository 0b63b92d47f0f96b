import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { HOUR_MS } from '../../core/durations.ts'
import { createLoop } from '../../core/loop.ts'
import type { DeliveryState } from '../deliveries/delivery.ts'
import { BUCKETS, bucketOf } from './delay-histogram.ts'
import { addHours, deleteOldHours, type HourCounts } from './hour-store.ts'

/** An attempt that was recorded. */
export interface EndedAttempt {
  readonly businessId: string
  readonly live: boolean
  readonly state: DeliveryState
  readonly endedAtMs: number
  /** When its event occurred. */
  readonly occurredAtMs: number
}

/** Counts attempts by the hour. */
export interface AttemptCounter {
  /** Counts one. Cheap, and does not wait. */
  count(attempt: EndedAttempt): void
  start(): void
  /** Stores what is counted. */
  stop(): Promise<void>
}

interface Options {
  /** A pool whose commits do not wait for the disk. */
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly everyMs?: number
}

const STORE_EVERY_MS = 2_000

/** The most rows that wait to be stored; while the database is unavailable, further ones are not counted. */
const ROWS_MAX = 20_000

const DELETE_EVERY_MS = 600_000
const RETENTION_MS = 400 * 86_400_000
const DELETED_MAX = 5_000

/** Collects counts in memory and adds them to the stored ones in the background, all in one statement. */
export function createAttemptCounter({
  pool,
  clock,
  log,
  everyMs = STORE_EVERY_MS,
}: Options): AttemptCounter {
  let pending = new Map<string, HourCounts>()
  const store = async (): Promise<void> => {
    const counted = pending
    if (counted.size === 0) return
    pending = new Map()
    try {
      await addHours(pool, [...counted.values()])
    } catch (error) {
      // Whether it was committed is not known for a lost connection: counted twice is worse than not at all.
      log.warn({ err: error, rows: counted.size }, 'some webhook attempts are not in the figures')
      throw error
    }
  }
  const storing = createLoop({ name: 'figures of webhooks', log, everyMs, turn: storeTurn })
  async function storeTurn(): Promise<undefined> {
    await store()
    return undefined
  }
  const retention = createLoop({
    name: 'retention of webhook figures',
    log,
    everyMs: DELETE_EVERY_MS,
    async turn() {
      const deleted = await deleteOldHours(pool, clock.now() - RETENTION_MS, DELETED_MAX)
      return deleted === DELETED_MAX ? 0 : undefined
    },
  })
  return {
    count(attempt) {
      const { live, endedAtMs } = attempt
      const hourMs = Math.floor(endedAtMs / HOUR_MS) * HOUR_MS
      for (const businessId of [attempt.businessId, '']) {
        const key = `${businessId} ${live} ${hourMs}`
        const counts = pending.get(key) ?? newCounts(businessId, live, hourMs)
        if (pending.size >= ROWS_MAX && !pending.has(key)) return
        pending.set(key, counts)
        add(counts, attempt)
      }
    },
    start() {
      storing.start()
      retention.start()
    },
    async stop() {
      await Promise.all([storing.stop(), retention.stop()])
      await store().catch(() => undefined)
    },
  }
}

function newCounts(businessId: string, live: boolean, hourMs: number): HourCounts {
  const delays = new Array<number>(BUCKETS).fill(0)
  return { businessId, live, hourMs, attempts: 0, delivered: 0, failed: 0, delays }
}

function add(counts: HourCounts, { state, endedAtMs, occurredAtMs }: EndedAttempt): void {
  counts.attempts += 1
  if (state === 'FAILED') counts.failed += 1
  if (state !== 'DELIVERED') return
  counts.delivered += 1
  const bucket = bucketOf(endedAtMs - occurredAtMs)
  counts.delays[bucket] = (counts.delays[bucket] ?? 0) + 1
}
