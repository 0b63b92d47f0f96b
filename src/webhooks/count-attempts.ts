import type { Pool } from 'pg'
import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { createLoop } from '../core/loop.ts'
import { bigintArray, booleanArray, textArray, timestampArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { DeliveryState } from './deliveries/delivery.ts'

/** An attempt that was recorded. */
export interface EndedAttempt {
  readonly businessId: string
  readonly live: boolean
  readonly state: DeliveryState
  readonly endedAtMs: number
  /** When its event occurred. */
  readonly occurredAtMs: number
}

interface Options {
  readonly everyMs?: number
}

const STORE_EVERY_MS = 2_000

/** The most rows that wait to be stored. While the database is unavailable, further rows are not counted. */
const ROWS_MAX = 20_000

const DELETE_EVERY_MS = 600_000
const RETENTION_MS = 400 * DAY_MS
const DELETED_MAX = 5_000

/** Counts attempts by the hour, in memory, and adds the counts to the stored ones in the background, all in one statement. */
export function createAttemptCounter(
  { database: { relaxedPool }, safeClock, log }: Runtime,
  { everyMs = STORE_EVERY_MS }: Options = {},
) {
  let pending = new Map<string, HourCounts>()
  const store = async (): Promise<undefined> => {
    const counted = pending
    if (counted.size === 0) return
    pending = new Map()
    try {
      await addHours(relaxedPool, [...counted.values()])
    } catch (error) {
      // After a lost connection it is not known whether the counts were committed. To lose them is better than to count twice.
      log.warn({ err: error, rows: counted.size }, 'some webhook attempts are not in the figures')
      throw error
    }
  }
  const storing = createLoop({ name: 'figures of webhooks', log, everyMs, turn: store })
  const retention = createLoop({
    name: 'retention of webhook figures',
    log,
    everyMs: DELETE_EVERY_MS,
    async turn() {
      const deleted = await deleteOldHours(relaxedPool, safeClock.now() - RETENTION_MS, DELETED_MAX)
      return deleted === DELETED_MAX ? 0 : undefined
    },
  })
  return {
    /** Counts an attempt. Cheap, and does not wait. */
    count(attempt: EndedAttempt): void {
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
    /** Stores the remaining counts. */
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

/** Two buckets for each doubling, so that the middle of a bucket is at most a fifth from any value in it. */
const PER_DOUBLING = 2

/** The last bucket, of three and a half weeks, also counts all longer delays. */
export const BUCKETS = 64

/** The bucket of a delay in milliseconds. */
export function bucketOf(delayMs: number): number {
  const bucket = Math.floor(PER_DOUBLING * Math.log2(Math.max(1, delayMs)))
  return Math.min(BUCKETS - 1, bucket)
}

/** @returns the delay in milliseconds that a part of the counted delays did not exceed; 0 if none are counted */
export function quantileMs(counts: readonly number[], part: number): number {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return 0
  const rank = Math.ceil(total * part)
  let passed = 0
  const bucket = counts.findIndex((count) => {
    passed += count
    return passed >= rank
  })
  return Math.round(2 ** ((bucket + 0.5) / PER_DOUBLING))
}

/** Adds counts to the counts of the same buckets. */
export function addCounts(to: number[], counts: readonly number[]): void {
  for (const [bucket, count] of counts.entries()) to[bucket] = (to[bucket] ?? 0) + count
}

/** The attempts of a business and mode that ended in one hour. */
interface HourCounts {
  /** Empty: all businesses. */
  readonly businessId: string
  readonly live: boolean
  /** When the hour begins. */
  readonly hourMs: number
  attempts: number
  delivered: number
  failed: number
  /** Deliveries by the bucket of their delay. */
  readonly delays: number[]
}

/** Adds counts to the stored counts. */
async function addHours(pool: Pool, rows: readonly HourCounts[]): Promise<void> {
  await pool.query({
    name: 'webhook-hour-add',
    // Always in the same order, so that two instances cannot deadlock.
    text: `insert into webhook_hour as h
        (business_id, live, hour, attempts, delivered, failed, delays)
      select business_id, live, hour, attempts, delivered, failed, string_to_array(delays, ',')::int[]
      from unnest($1::text[], $2::boolean[], $3::timestamptz[], $4::int8[], $5::int8[], $6::int8[],
        $7::text[]) as i(business_id, live, hour, attempts, delivered, failed, delays)
      order by business_id, live, hour
      on conflict (business_id, live, hour) do update set
        attempts = h.attempts + excluded.attempts, delivered = h.delivered + excluded.delivered,
        failed = h.failed + excluded.failed,
        delays = array(select d.stored + d.added
          from unnest(h.delays, excluded.delays) with ordinality as d(stored, added, bucket)
          order by d.bucket)`,
    values: [
      textArray(rows.map((row) => row.businessId)),
      booleanArray(rows.map((row) => row.live)),
      timestampArray(rows.map((row) => row.hourMs)),
      bigintArray(rows.map((row) => BigInt(row.attempts))),
      bigintArray(rows.map((row) => BigInt(row.delivered))),
      bigintArray(rows.map((row) => BigInt(row.failed))),
      textArray(rows.map((row) => row.delays.join(','))),
    ],
  })
}

/** The attempts of one hour. */
export interface WebhookHour {
  readonly hourMs: number
  readonly attempts: number
  readonly delivered: number
  readonly failed: number
  readonly delays: readonly number[]
}

/**
 * The stored hours of some businesses in one mode: one row for each hour and business.
 *
 * @param businessIds `['']`: all together
 * @param periods each from its first hour to its last hour
 */
export async function readWebhookHours(
  on: Queryable,
  businessIds: readonly string[],
  live: boolean,
  periods: readonly { readonly fromMs: number; readonly toMs: number }[],
): Promise<readonly WebhookHour[]> {
  const { rows } = await on.query<WebhookHour>({
    name: 'webhook-hour-read',
    text: `select round(date_part('epoch', h.hour) * 1000) as "hourMs", h.attempts::float8, h.delivered::float8,
        h.failed::float8, h.delays
      from unnest($3::timestamptz[], $4::timestamptz[]) as p(first, last)
      cross join unnest($1::text[]) as b(id)
      cross join lateral (select * from webhook_hour where business_id = b.id and live = $2
        and hour >= p.first and hour <= p.last offset 0) h`,
    values: [
      textArray(businessIds),
      live,
      timestampArray(periods.map(({ fromMs }) => fromMs)),
      timestampArray(periods.map(({ toMs }) => toMs)),
    ],
  })
  return rows
}

/** @returns how many rows it deleted */
export async function deleteOldHours(
  on: Queryable,
  beforeMs: number,
  limit: number,
): Promise<number> {
  const { rowCount } = await on.query({
    name: 'webhook-hour-delete',
    text: `delete from webhook_hour where ctid = any (array(
      select ctid from webhook_hour where hour < $1 limit $2))`,
    values: [new Date(beforeMs), limit],
  })
  return rowCount ?? 0
}
