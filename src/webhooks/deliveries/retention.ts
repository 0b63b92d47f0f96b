import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { deleteSupersededPositions } from './dispatcher-position.ts'

interface RetentionOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly retentionDays: number
  /** How long deliveries to a disabled endpoint stay paused: as long as retries last. */
  readonly pausedMaxMs: number
}

/** Ends undeliverable deliveries and deletes old ones, in small batches. */
export interface DeliveryRetention extends Pick<Loop, 'start' | 'stop'> {
  /** One run, until the signal aborts. @returns how many deliveries expired and were deleted */
  run(signal?: AbortSignal): Promise<{ expired: number; deleted: number }>
}

const DAY_MS = 86_400_000

/** The time between two runs. */
const EVERY_MS = 600_000

/** Bounds: deliveries scanned per statement, and statements per loop of one run. */
const ROWS_MAX = 2_000
const STATEMENTS_MAX = 2_000

/** "dlv_" and ten characters of time: ids of earlier deliveries sort before it. */
const ID_PREFIX_LENGTH = 14

export function createDeliveryRetention(options: RetentionOptions): DeliveryRetention {
  const { pool, clock, log, retentionDays, pausedMaxMs } = options
  const run = async (signal?: AbortSignal) => {
    const nowMs = clock.now()
    let expired = 0
    for (let i = 0; i < STATEMENTS_MAX && !signal?.aborted; i++) {
      const rows = await expireUndeliverable(pool, {
        nowMs,
        pausedBeforeMs: nowMs - pausedMaxMs,
        rowsMax: ROWS_MAX,
      })
      expired += rows
      if (rows < ROWS_MAX) break
    }
    const beforeMs = nowMs - retentionDays * DAY_MS
    const beforeId = newId('dlv', beforeMs).slice(0, ID_PREFIX_LENGTH)
    let deleted = 0
    let after = ''
    for (let i = 0; i < STATEMENTS_MAX && !signal?.aborted; i++) {
      const page = await deleteOldDeliveries(pool, { after, beforeId, beforeMs, rowsMax: ROWS_MAX })
      deleted += page.deleted
      if (page.last === undefined) break
      after = page.last
    }
    if (!signal?.aborted) await purgeEndpoints(pool, beforeMs)
    await deleteSupersededPositions(pool, signal)
    return { expired, deleted }
  }
  const loop = createLoop({
    name: 'delivery retention',
    log,
    everyMs: EVERY_MS,
    turn: async (signal) => void (await run(signal)),
  })
  return { start: loop.start, stop: loop.stop, run }
}

/**
 * Marks deliveries that will not be sent as FAILED: those to deleted endpoints, and those that have
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
        select d.id, case when e.removed then 'the endpoint was removed'
          else 'the endpoint was disabled for longer than the retry period' end as failure
        from unreachable e cross join lateral (
          select id from webhook_delivery
          where endpoint_id = e.id and state = 'PENDING'
            and due_at < case when e.removed then $1::timestamptz else $2::timestamptz end
            and (leased_until is null or leased_until <= $1)
          order by due_at limit $3 for no key update skip locked
        ) d limit $3
      )
      update webhook_delivery d set state = 'FAILED', completed_at = $1, failure = x.failure,
        claims = d.claims + 1
      from expired x where d.id = x.id and d.state = 'PENDING'`,
    values: [new Date(options.nowMs), new Date(options.pausedBeforeMs), options.rowsMax],
  })
  return result.rowCount ?? 0
}

/**
 * Deletes the next page of old deliveries with their attempts. Ids rise with time, so a run scans
 * the old deliveries once, in the order of the primary key. Deliveries completed late are kept
 * until a later run; pending ones are never deleted.
 *
 * @param options ids after `after` and before `beforeId`, completed before `beforeMs`
 * @returns the number deleted, and the id to continue after; undefined at the end
 */
async function deleteOldDeliveries(
  pool: Pool,
  options: {
    readonly after: string
    readonly beforeId: string
    readonly beforeMs: number
    readonly rowsMax: number
  },
): Promise<{ deleted: number; last: string | undefined }> {
  const result = await pool.query<{ deleted: number; scanned: number; last: string | null }>({
    name: 'webhook-delete-deliveries',
    text: `with page as (
        select id from webhook_delivery where id > $1 and id < $2 order by id limit $4
      ), old as (
        select id from webhook_delivery
        where id = any(array(select id from page)) and state <> 'PENDING' and completed_at < $3
        for update skip locked
      ), attempts as (
        delete from webhook_attempt where delivery_id = any(array(select id from old))
      ), deliveries as (
        delete from webhook_delivery where id = any(array(select id from old)) returning 1
      )
      select (select count(*)::int from deliveries) as deleted,
        (select count(*)::int from page) as scanned, (select max(id) from page) as last`,
    values: [options.after, options.beforeId, new Date(options.beforeMs), options.rowsMax],
  })
  const { deleted = 0, scanned = 0, last = null } = result.rows[0] ?? {}
  return { deleted, last: scanned < options.rowsMax ? undefined : (last ?? undefined) }
}

/** Purges endpoints that were deleted before the time and have no deliveries left. */
async function purgeEndpoints(pool: Pool, beforeMs: number): Promise<void> {
  await pool.query({
    name: 'webhook-purge-endpoints',
    text: `with old as (
        select id from webhook_endpoint e where deleted_at < $1
          and not exists (select from webhook_delivery where endpoint_id = e.id)
        limit 1000 for update skip locked
      ), secrets as (
        delete from webhook_secret where endpoint_id = any(array(select id from old))
      )
      delete from webhook_endpoint where id = any(array(select id from old))`,
    values: [new Date(beforeMs)],
  })
}
