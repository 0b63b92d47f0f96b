import type { Pool } from 'pg'
import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { dropPartition, isLocked, LOCKED_MS, listPartitions } from '../postgres/partitions.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { deleteSupersededPositions } from './deliveries/backlog.ts'

interface RetentionOptions {
  readonly retentionDays: number
  /** How long deliveries to a disabled endpoint stay paused: as long as retries last. */
  readonly pausedMaxMs: number
}

/** Ends undeliverable deliveries in small batches, and drops partitions of old deliveries. */
export interface DeliveryRetention extends Pick<Loop, 'start' | 'stop'> {
  /**
   * One run, until the signal aborts.
   *
   * @returns the numbers of expired deliveries and of dropped partitions; inUse: a partition was left because others used
   *   it
   */
  run(signal?: AbortSignal): Promise<{ expired: number; dropped: number; inUse: boolean }>
}

/** The time between two runs. */
const EVERY_MS = 600_000

/** Bounds: deliveries scanned per statement, and statements per loop of one run. */
const ROWS_MAX = 2_000

const STATEMENTS_MAX = 2_000

/** Bound: endpoints purged per statement. */
const ENDPOINTS_MAX = 1_000

/** How long a deleted endpoint is kept: by then, no dispatch that saw it is in progress. */
const DELETED_MS = HOUR_MS

export function createDeliveryRetention(
  runtime: Runtime,
  options: RetentionOptions,
): DeliveryRetention {
  const { safeClock, log } = runtime
  const { relaxedPool } = runtime.database
  const { retentionDays, pausedMaxMs } = options
  const run = async (signal?: AbortSignal) => {
    const nowMs = safeClock.now()
    const result = { expired: 0, dropped: 0, inUse: false }
    const failures: unknown[] = []
    /** Runs a step even if an earlier one failed: what always fails must not let the other tables grow. */
    const attempt = async (step: () => Promise<unknown>): Promise<void> => {
      if (!signal?.aborted) await step().catch((error: unknown) => failures.push(error))
    }
    const beforeMs = nowMs - retentionDays * DAY_MS
    await attempt(async () => Object.assign(result, await dropDeliveries(relaxedPool, beforeMs)))
    // Before the next step, because each deleted endpoint makes the search for undeliverable deliveries longer.
    await attempt(async () => {
      for (let i = 0; i < STATEMENTS_MAX && !signal?.aborted; i++) {
        if ((await purgeEndpoints(relaxedPool, nowMs - DELETED_MS)) < ENDPOINTS_MAX) break
      }
    })
    await attempt(async () => {
      for (let i = 0; i < STATEMENTS_MAX && !signal?.aborted; i++) {
        const rows = await expireUndeliverable(relaxedPool, {
          nowMs,
          pausedBeforeMs: nowMs - pausedMaxMs,
          rowsMax: ROWS_MAX,
        })
        result.expired += rows
        if (rows < ROWS_MAX) break
      }
    })
    await attempt(() => deleteSupersededPositions(relaxedPool, signal))
    if (failures.length > 0) throw failures[0]
    return result
  }
  const loop = createLoop({
    name: 'delivery retention',
    log,
    everyMs: EVERY_MS,
    turn: async (signal) => ((await run(signal)).inUse ? LOCKED_MS : undefined),
  })
  return { start: loop.start, stop: loop.stop, run }
}

/**
 * Marks deliveries that will not be sent as FAILED: deliveries to deleted endpoints, and deliveries that have
 * been paused for too long because their endpoint is disabled.
 *
 * @returns the number of deliveries that failed
 */
async function expireUndeliverable(
  pool: Pool,
  options: { readonly nowMs: number; readonly pausedBeforeMs: number; readonly rowsMax: number },
): Promise<number> {
  // A delivery that is due in the future still waits for its retry.
  const result = await pool.query({
    name: 'webhook-expire-undeliverable',
    text: `with unreachable as (
        select id, deleted_at is not null as removed from webhook_endpoint
        where deleted_at is not null or disabled_at < $2
      ), expired as (
        select d.*, case when e.removed then 'the endpoint was removed'
          else 'the endpoint was disabled for longer than the retry period' end as failure
        from unreachable e cross join lateral (
          select id, position from webhook_delivery
          where endpoint_id = e.id and state = 'PENDING'
            and due_at < case when e.removed then $1::timestamptz else $2::timestamptz end
            and (leased_until is null or leased_until <= $1)
          order by due_at limit $3 for no key update skip locked
        ) d limit $3
      )
      update webhook_delivery d set state = 'FAILED', completed_at = $1, failure = x.failure,
        claims = d.claims + 1
      from expired x where d.id = any(array(select id from expired))
          and d.position between (select min(position) from expired) and (select max(position) from expired)
        and d.id = x.id and d.state = 'PENDING'`,
    values: [new Date(options.nowMs), new Date(options.pausedBeforeMs), options.rowsMax],
  })
  return result.rowCount ?? 0
}

/** Purges endpoints that were deleted before the time and have no deliveries, or none left. @returns how many */
async function purgeEndpoints(pool: Pool, beforeMs: number): Promise<number> {
  const { rowCount } = await pool.query({
    name: 'webhook-purge-endpoints',
    text: `with old as (
        select id from webhook_endpoint e where deleted_at < $1
          and not exists (select from webhook_delivery where endpoint_id = e.id)
        limit ${ENDPOINTS_MAX} for update skip locked
      ), secrets as (
        delete from webhook_secret where endpoint_id = any(array(select id from old))
      )
      delete from webhook_endpoint where id = any(array(select id from old))`,
    values: [new Date(beforeMs)],
  })
  return rowCount ?? 0
}

/**
 * Drops the partitions whose deliveries were all created before a time, in whatever state they are,
 * and the partitions of their attempts. Stops at a partition that others use; a later run drops it.
 *
 * @returns how many partitions of deliveries, and whether it left a partition because others used it
 */
async function dropDeliveries(
  pool: Pool,
  beforeMs: number,
): Promise<{ dropped: number; inUse: boolean }> {
  let dropped = 0
  try {
    for (const { name, lower, upper } of await listPartitions(pool, 'webhook_delivery')) {
      if (upper === undefined) break
      if ((await newestCreatedAtMs(pool, lower ?? '0', upper)) >= beforeMs) break
      await keepSequences(pool, lower ?? '0', upper)
      if (!(await dropPartition(pool, 'webhook_delivery', name))) break
      dropped++
    }
    for (const { name, upper } of await listPartitions(pool, 'webhook_attempt')) {
      if (upper === undefined || !(await dropPartition(pool, 'webhook_attempt', name))) break
    }
  } catch (error) {
    if (!isLocked(error)) throw error
    return { dropped, inUse: true }
  }
  return { dropped, inUse: false }
}

/** Keeps the last sequence number of each endpoint, which its next delivery states, before the rows are dropped. */
async function keepSequences(pool: Pool, lower: string, upper: string): Promise<void> {
  await pool.query({
    name: 'webhook-keep-sequences',
    text: `update webhook_endpoint e set dropped_sequence = last.sequence
      from webhook_endpoint of_id cross join lateral (
        select sequence from webhook_delivery
        where endpoint_id = of_id.id and position >= $1 and position < $2
        order by position desc limit 1) last
      where e.id = of_id.id and e.dropped_sequence <> last.sequence`,
    values: [lower, upper],
  })
}

/** When the newest delivery of a partition was created; -Infinity if there is none. */
async function newestCreatedAtMs(pool: Pool, lower: string, upper: string): Promise<number> {
  // Ids begin with the time.
  const { rows } = await pool.query<{ created_at: Date }>({
    name: 'webhook-newest-delivery',
    text: `select created_at from webhook_delivery where position >= $1 and position < $2
      order by id desc limit 1`,
    values: [lower, upper],
  })
  return rows[0]?.created_at.getTime() ?? Number.NEGATIVE_INFINITY
}
