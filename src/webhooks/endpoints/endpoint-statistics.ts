import { HOUR_MS } from '../../core/durations.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { EndpointContext } from './endpoint.ts'

const HOURS = 24

/** The most deliveries that count for one endpoint, and for all endpoints of a request together. */
const ROWS_MAX = 5_000
const ALL_ROWS_MAX = 50_000

/** How many pending deliveries of an endpoint are counted at most. */
const PENDING_MAX = 1_000

/** How many kinds of failures an endpoint shows, and how much of a response. */
const FAILURES_MAX = 10
const BODY_MAX = 200

/** The outcomes of the deliveries of a period. Latencies in milliseconds are of the latest attempts; 0 without attempts. */
interface Outcomes {
  readonly attemptCount: bigint
  readonly deliveredCount: number
  readonly failedCount: number
  readonly latencyP50Ms: number
  readonly latencyP95Ms: number
}

export interface EndpointStatistics extends Outcomes {
  readonly endpointId: string
  /** Deliveries created since then count. */
  readonly fromMs: number
  readonly deliveryCount: number
  readonly pendingCount: number
  /** Undefined: none is pending. */
  readonly oldestPendingMs: number | undefined
  /** The outcomes of each hour, oldest first, with the beginning of the hour. */
  readonly hours: readonly (Outcomes & { readonly fromMs: number })[]
  /** How the latest attempts failed, the most frequent first; only for a request with one endpoint. */
  readonly failures: readonly EndpointFailure[]
}

/** Deliveries whose latest attempt failed in the same way. */
interface EndpointFailure {
  /** 0: no response. */
  readonly statusCode: number
  readonly error: string
  readonly deliveryCount: number
  readonly lastMs: number
  readonly deliveryId: string
  readonly responseBody: string
}

/** The row of an endpoint, whose `hour` is null, or of an hour of its deliveries. */
interface Row {
  readonly endpoint_id: string
  readonly hour: number | null
  readonly deliveries: number
  readonly attempts: string
  readonly delivered: number
  readonly failed: number
  readonly latencies: readonly [p50: number, p95: number] | null
  readonly is_cut: boolean
  readonly oldest_ms: number
}

interface Request {
  /** Empty: all endpoints of the business. */
  readonly endpointIds: readonly string[]
  /** Empty: any business that the caller may see. */
  readonly businessId: string
  /** The businesses that the caller may see; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
}

/** The statistics of the requested endpoints that are not deleted, and that the caller may see. */
export async function getEndpointStatistics(
  { database: { durablePool }, clock }: EndpointContext,
  request: Request,
): Promise<readonly EndpointStatistics[]> {
  const { endpointIds, businessId, allowed } = request
  const { rows } = await durablePool.query<{ id: string }>(
    `select id from webhook_endpoint
      where deleted_at is null and ($2 = '' or business_id = $2)
        and ($3::text[] is null or business_id = any ($3))
        and (id = any ($1::text[]) or $1 = '{}' and business_id = $2)
      order by id desc`,
    [endpointIds, businessId, allowed ? [...allowed] : null],
  )
  const ids = rows.map(({ id }) => id)
  const visible = new Set(ids)
  const requested = endpointIds.length === 0 ? ids : endpointIds.filter((id) => visible.has(id))
  return readStatistics(durablePool, requested, clock.now())
}

/** Counts the latest deliveries of endpoints, by the index of their positions. */
async function readStatistics(
  pool: Queryable,
  endpointIds: readonly string[],
  nowMs: number,
): Promise<readonly EndpointStatistics[]> {
  if (endpointIds.length === 0) return []
  // Whole hours of the clock, so that later calls show the same hours.
  const fromMs = Math.floor(nowMs / HOUR_MS) * HOUR_MS - (HOURS - 1) * HOUR_MS
  const rowsMax = Math.min(ROWS_MAX, Math.floor(ALL_ROWS_MAX / endpointIds.length))
  const { rows } = await pool.query<Row>(
    `select endpoint_id, hour, count(*)::int4 as deliveries, sum(attempts) as attempts,
        count(*) filter (where state = 'DELIVERED')::int4 as delivered,
        count(*) filter (where state = 'FAILED')::int4 as failed,
        percentile_disc(array[0.5, 0.95]) within group (order by latency_ms) as latencies,
        count(*) = $3 as is_cut, round(date_part('epoch', min(created_at)) * 1000) as oldest_ms
      from (
        select endpoint_id, state, attempts, latency_ms, created_at,
          floor(extract(epoch from created_at - $2) / 3600)::int4 as hour
        from unnest($1::text[]) as k(key) cross join lateral (
          select * from webhook_delivery where endpoint_id = k.key order by position desc limit $3
        ) d where created_at >= $2 and created_at < $2::timestamptz + interval '${HOURS} hours'
      ) latest group by grouping sets ((endpoint_id), (endpoint_id, hour))`,
    [endpointIds, new Date(fromMs), rowsMax],
  )
  const pending = await countPending(pool, endpointIds)
  const [only = ''] = endpointIds
  const failures = endpointIds.length === 1 ? await readFailures(pool, only, fromMs) : []
  const byEndpoint = Map.groupBy(rows, (row) => row.endpoint_id)
  return endpointIds.map((endpointId) => {
    const own = byEndpoint.get(endpointId) ?? []
    const whole = own.find(({ hour }) => hour === null)
    const { count: pendingCount = 0, oldest_ms: oldestPendingMs } = pending.get(endpointId) ?? {}
    return {
      endpointId,
      fromMs: whole?.is_cut ? whole.oldest_ms : fromMs,
      deliveryCount: whole?.deliveries ?? 0,
      ...toOutcomes(whole),
      pendingCount,
      oldestPendingMs,
      hours: Array.from({ length: HOURS }, (_, hour) => ({
        fromMs: fromMs + hour * HOUR_MS,
        ...toOutcomes(own.find((row) => row.hour === hour)),
      })),
      failures,
    }
  })
}

function toOutcomes(row: Row | undefined): Outcomes {
  const [latencyP50Ms = 0, latencyP95Ms = 0] = row?.latencies ?? []
  const { delivered: deliveredCount = 0, failed: failedCount = 0, attempts = 0 } = row ?? {}
  return { attemptCount: BigInt(attempts), deliveredCount, failedCount, latencyP50Ms, latencyP95Ms }
}

/** Groups the latest deliveries of an endpoint whose latest attempt failed by the response of the receiver. */
async function readFailures(
  pool: Queryable,
  endpointId: string,
  fromMs: number,
): Promise<readonly EndpointFailure[]> {
  const { rows } = await pool.query<EndpointFailure>(
    `select coalesce(status, 0) as "statusCode", error, count(*)::int4 as "deliveryCount",
        round(date_part('epoch', max(started_at)) * 1000) as "lastMs",
        (array_agg(id order by position desc))[1] as "deliveryId",
        (array_agg(left(response_body, ${BODY_MAX}) order by position desc))[1] as "responseBody"
      from (
        select * from webhook_delivery where endpoint_id = $1 order by position desc limit ${ROWS_MAX}
      ) latest where created_at >= $2 and error <> ''
      group by 1, 2 order by 3 desc, 4 desc limit ${FAILURES_MAX}`,
    [endpointId, new Date(fromMs)],
  )
  return rows
}

interface PendingRow {
  readonly endpoint_id: string
  readonly count: number
  readonly oldest_ms: number
}

async function countPending(
  pool: Queryable,
  endpointIds: readonly string[],
): Promise<ReadonlyMap<string, PendingRow>> {
  // The order keeps the planner on the index of pending deliveries.
  const { rows } = await pool.query<PendingRow>(
    `select endpoint_id, count(*)::int4 as count, round(date_part('epoch', min(created_at)) * 1000) as oldest_ms
      from unnest($1::text[]) as k(key) cross join lateral (
        select endpoint_id, created_at from webhook_delivery
        where endpoint_id = k.key and state = 'PENDING' order by due_at limit ${PENDING_MAX}
      ) d group by endpoint_id`,
    [endpointIds],
  )
  return new Map(rows.map((row) => [row.endpoint_id, row]))
}
