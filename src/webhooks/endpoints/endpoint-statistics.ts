import { HOUR_MS } from '../../core/durations.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { EndpointContext } from './endpoint-context.ts'

const HOURS = 24

/** The most deliveries that count for one endpoint, and for all endpoints of a request together. */
const ROWS_MAX = 5_000
const ALL_ROWS_MAX = 50_000

/** How many pending deliveries of an endpoint are counted at most. */
const PENDING_MAX = 1_000

/** How many kinds of failures an endpoint shows, and how much of a response. */
const FAILURES_MAX = 10
const BODY_MAX = 200

/** How deliveries of a period went. Latencies in milliseconds are of the latest attempts; 0 without one. */
interface Outcomes {
  readonly attempts: number
  readonly delivered: number
  readonly failed: number
  readonly latencyP50Ms: number
  readonly latencyP95Ms: number
}

export interface EndpointStatistics extends Outcomes {
  readonly endpointId: string
  /** Deliveries created since then count. */
  readonly fromMs: number
  readonly deliveries: number
  readonly pending: number
  /** Undefined: none is pending. */
  readonly oldestPendingMs: number | undefined
  /** The outcomes of each hour, oldest first, with its beginning. */
  readonly hours: readonly (Outcomes & { readonly fromMs: number })[]
  /** How the latest attempts failed, the most frequent first; only of a request for one endpoint. */
  readonly failures: readonly EndpointFailure[]
}

/** Deliveries whose latest attempt failed in the same way. */
export interface EndpointFailure {
  /** 0: no response. */
  readonly status: number
  readonly error: string
  readonly deliveries: number
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
  { database: { relaxedPool }, clock }: EndpointContext,
  request: Request,
): Promise<readonly EndpointStatistics[]> {
  const { endpointIds, businessId, allowed } = request
  const { rows } = await relaxedPool.query<{ id: string }>(
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
  return readStatistics(relaxedPool, requested, clock.now())
}

/** Counts the latest deliveries of endpoints, by the index of their positions. */
async function readStatistics(
  pool: Queryable,
  endpointIds: readonly string[],
  nowMs: number,
): Promise<readonly EndpointStatistics[]> {
  if (endpointIds.length === 0) return []
  // The hours of the clock, so that later calls show the same hours.
  const fromMs = Math.floor(nowMs / HOUR_MS) * HOUR_MS - (HOURS - 1) * HOUR_MS
  const rowsMax = Math.min(ROWS_MAX, Math.floor(ALL_ROWS_MAX / endpointIds.length))
  const { rows } = await pool.query<Row>(
    `select endpoint_id, hour, count(*)::int4 as deliveries, sum(attempts) as attempts,
        count(*) filter (where state = 'DELIVERED')::int4 as delivered,
        count(*) filter (where state = 'FAILED')::int4 as failed,
        percentile_disc(array[0.5, 0.95]) within group (order by latency_ms) as latencies,
        count(*) = $3 as is_cut, ${epochMs('min(created_at)')} as oldest_ms
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
    const { count = 0, oldest_ms: oldestPendingMs } = pending.get(endpointId) ?? {}
    return {
      endpointId,
      fromMs: whole?.is_cut ? whole.oldest_ms : fromMs,
      deliveries: whole?.deliveries ?? 0,
      ...toOutcomes(whole),
      pending: count,
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
  const { delivered = 0, failed = 0, attempts = 0 } = row ?? {}
  return { attempts: Number(attempts), delivered, failed, latencyP50Ms, latencyP95Ms }
}

/** Groups the latest deliveries of an endpoint whose latest attempt failed by what the receiver answered. */
async function readFailures(
  pool: Queryable,
  endpointId: string,
  fromMs: number,
): Promise<readonly EndpointFailure[]> {
  const { rows } = await pool.query<EndpointFailure>(
    `select coalesce(status, 0) as status, error, count(*)::int4 as deliveries,
        ${epochMs('max(started_at)')} as "lastMs", (array_agg(id order by position desc))[1] as "deliveryId",
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
    `select endpoint_id, count(*)::int4 as count, ${epochMs('min(created_at)')} as oldest_ms
      from unnest($1::text[]) as k(key) cross join lateral (
        select endpoint_id, created_at from webhook_delivery
        where endpoint_id = k.key and state = 'PENDING' order by due_at limit ${PENDING_MAX}
      ) d group by endpoint_id`,
    [endpointIds],
  )
  return new Map(rows.map((row) => [row.endpoint_id, row]))
}
