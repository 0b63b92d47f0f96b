import type { Pool } from 'pg'

/** The maximum number of due deliveries that are counted. */
const ROWS_COUNTED_MAX = 100_000

/** The deliveries that are overdue. */
interface Backlog {
  readonly due: number
  /** How long the oldest delivery has been due; 0 if none is due. */
  readonly oldestSeconds: number
}

/** Counts due deliveries to enabled endpoints: deliveries to a disabled endpoint are paused. */
export async function readBacklog(pool: Pool): Promise<Backlog> {
  const result = await pool.query<Backlog>(
    `select count(*)::int as due,
        coalesce(extract(epoch from clock_timestamp() - min(due_at)), 0)::float8 as "oldestSeconds"
      from (
        select d.due_at from webhook_endpoint e
        join webhook_delivery d on d.endpoint_id = e.id
        where e.deleted_at is null and e.disabled_at is null
          and d.state = 'PENDING' and d.due_at <= clock_timestamp()
          and (d.leased_until is null or d.leased_until <= clock_timestamp())
        limit $1
      ) due`,
    [ROWS_COUNTED_MAX],
  )
  return result.rows[0] ?? { due: 0, oldestSeconds: 0 }
}

/** The deliveries that are due and not in progress. */
export interface Due {
  /** Counted up to a bound. */
  readonly deliveries: number
  /** When the oldest counted delivery was due; undefined: there is none. */
  readonly oldestDueAtMs: number | undefined
}

/**
 * Like `readBacklog`, for the endpoints of some businesses in one mode.
 *
 * @param businessIds undefined: all
 */
export async function readDue(
  pool: Pool,
  {
    businessIds,
    live,
  }: { readonly businessIds: readonly string[] | undefined; readonly live: boolean },
  max: number,
): Promise<Due> {
  const { rows } = await pool.query<{ deliveries: number; due_at_ms: number | null }>(
    `select count(*)::int as deliveries, round(date_part('epoch', min(due_at)) * 1000) as due_at_ms
      from (
        select d.due_at from webhook_endpoint e cross join lateral (
          select due_at from webhook_delivery where endpoint_id = e.id and state = 'PENDING'
            and due_at <= clock_timestamp()
            and (leased_until is null or leased_until <= clock_timestamp())
          order by due_at limit $1
        ) d
        where e.deleted_at is null and e.disabled_at is null and e.live = $2
          and ($3::text[] is null or e.business_id = any ($3)) limit $1
      ) due`,
    [max, live, businessIds ?? null],
  )
  const [row] = rows
  return { deliveries: row?.deliveries ?? 0, oldestDueAtMs: row?.due_at_ms ?? undefined }
}

/**
 * The position up to which deliveries exist. Events after it are not deleted, however old they are. Pending deliveries
 * do not hold back retention: an expired event is not delivered any more.
 */
export async function dispatchedUpTo(pool: Pool): Promise<bigint> {
  const result = await pool.query<{ position: string }>({
    name: 'webhook-dispatched-up-to',
    // Reads the end of the index, where no row was ever deleted, so a long-lived snapshot does not make it slower.
    text: 'select position from webhook_dispatcher order by position desc limit 1',
  })
  return BigInt(result.rows[0]?.position ?? 0)
}

/** The largest bigint of PostgreSQL. */
const POSITION_MAX = 2n ** 63n - 1n

/**
 * @param maxAgeMs how long the result is kept, and so how long a redelivery before that position may wait
 * @returns a function that returns a position before all pending deliveries
 */
export function createPendingFrom(
  pool: Pool,
  maxAgeMs: number,
): (nowMs: number) => Promise<bigint> {
  let position = 0n
  let readAtMs = Number.NEGATIVE_INFINITY
  return async (nowMs) => {
    if (nowMs < readAtMs || nowMs - readAtMs >= maxAgeMs) {
      position = await readPendingFrom(pool)
      readAtMs = nowMs
    }
    return position
  }
}

/**
 * A position before all pending deliveries: the start of the first partition that has any. Most partitions have none, so
 * the statements that look for due deliveries begin here. Otherwise each look-up would open the index of every partition.
 *
 * Makes one look-up for each partition.
 */
async function readPendingFrom(pool: Pool): Promise<bigint> {
  // The order keeps the planner on the index of pending deliveries.
  const result = await pool.query<{ position: string }>({
    name: 'webhook-pending-from',
    text: `select coalesce(
        (select min(p.first) from (
            select coalesce(lower::bigint, 0) as first, coalesce(upper::bigint, $1) as next
            from list_partitions('webhook_delivery')
          ) p cross join lateral (select from webhook_delivery
            where state = 'PENDING' and position >= p.first and position < p.next
            order by endpoint_id, due_at limit 1) any_pending),
        (select position from webhook_dispatcher order by position desc limit 1)) as position`,
    values: [POSITION_MAX],
  })
  return BigInt(result.rows[0]?.position ?? 0)
}

/** The most rows that one statement deletes, and the most statements of one run. */
const ROWS_MAX = 5_000
const STATEMENTS_MAX = 100

/** Deletes the positions before the last position; nothing while another instance does this. */
export async function deleteSupersededPositions(pool: Pool, signal?: AbortSignal): Promise<void> {
  let after: string | null = '-1'
  for (let i = 0; i < STATEMENTS_MAX && after !== null && !signal?.aborted; i++) {
    after = await deletePage(pool, after)
  }
}

/**
 * Deletes the positions after the previous page. Starting from the beginning would scan the deleted rows, which may still
 * be in the index.
 *
 * @returns the last position deleted; null if none is left
 */
async function deletePage(pool: Pool, after: string): Promise<string | null> {
  const result = await pool.query<{ last: string | null }>({
    name: 'webhook-delete-positions',
    text: `with lock as materialized (
        select pg_try_advisory_xact_lock(hashtextextended('webhook dispatcher positions', 0)) as held
      ), old as (
        select position from webhook_dispatcher
        where (select held from lock) and position > $1 and position < (
          select position from webhook_dispatcher order by position desc limit 1)
        order by position limit $2
      ), deleted as (
        delete from webhook_dispatcher where position = any(array(select position from old))
      )
      select max(position) as last from old`,
    values: [after, ROWS_MAX],
  })
  return result.rows[0]?.last ?? null
}
