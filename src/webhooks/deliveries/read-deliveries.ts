import type { Pool } from 'pg'
import { CLOCK_SKEW_MAX_MS } from '../../core/durations.ts'
import { Fault } from '../../core/errors.ts'
import { firstPositionAt } from '../../events/read-log.ts'
import { bigintArray } from '../../postgres/binary-arrays.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { cutPage, cutScan, invalidPageToken, readPage } from '../../postgres/page-token.ts'
import { bindValues } from '../../postgres/statement.ts'
import type { DeliveryPlace, DeliveryState, StoredAttempt, StoredDelivery } from './delivery.ts'

/** Which deliveries to read; one of the first three fields is set. Times in epoch milliseconds. */
export interface DeliveryFilter {
  readonly endpointId: string | undefined
  readonly eventId: string | undefined
  readonly businessId?: string | undefined
  readonly live?: boolean | undefined
  readonly states: readonly DeliveryState[] | undefined
  /** When they were created. */
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
}

/** The columns of a delivery `d`, with its event as `l` and `o`, and its endpoint as `e`. */
type DeliveryRow = Omit<StoredDelivery, 'position'> & { readonly position: string }

/**
 * Selects the attempts `a` of a delivery. The latest attempt is in the row of the delivery, and earlier attempts are in
 * `webhook_attempt`; deliveries of earlier releases have all their attempts there.
 */
const ATTEMPTS = `select json_build_object('number', a.number,
      'startedAtMs', round(date_part('epoch', a.started_at) * 1000), 'latencyMs', a.latency_ms,
      'status', coalesce(a.status, 0), 'responseBody', a.response_body, 'error', a.error)
    from (
      select d.attempts as number, d.started_at, d.latency_ms, d.status, d.response_body, d.error
      where d.started_at is not null
      union all
      select a.number, a.started_at, a.latency_ms, a.status, a.response_body, a.error
      from webhook_attempt a where a.delivery_id = d.id and a.position = d.position
    ) a order by a.number desc`

/** The columns of a `DeliveryRow`. */
const DELIVERY_COLUMNS = `d.id, d.endpoint_id as "endpointId", d.position,
  e.url as "endpointUrl", e.description as "endpointDescription", coalesce(l.event_id, '') as "eventId",
  coalesce(o.kind, '') as "eventKind", o.payload as event, d.state, d.attempts,
  round(date_part('epoch', d.created_at) * 1000) as "createdAtMs",
  case when d.state = 'PENDING' then round(date_part('epoch', coalesce(d.leased_until, d.due_at)) * 1000) end
    as "dueAtMs",
  round(date_part('epoch', d.completed_at) * 1000) as "completedAtMs", coalesce(d.failure, '') as failure,
  case when d.attempts > 0 then (${ATTEMPTS} limit 1) end as "latestAttempt"`

/** Lists deliveries of an event, ordered by endpoint; a business has few endpoints. */
async function listOfEvent(
  pool: Pool,
  eventId: string,
  filter: Omit<DeliveryFilter, 'eventId'>,
  after: DeliveryPlace | undefined,
  limit: number,
): Promise<StoredDelivery[]> {
  const { values, bind } = bindValues(eventId)
  const where: string[] = []
  const { endpointId, businessId, live, states, fromMs, toMs } = filter
  if (endpointId !== undefined) where.push(`d.endpoint_id = ${bind(endpointId)}`)
  if (businessId !== undefined) where.push(`e.business_id = ${bind(businessId)}`)
  if (live !== undefined) where.push(`e.live = ${live}`)
  if (states !== undefined) where.push(`d.state = any (${bind(states)}::text[])`)
  if (fromMs !== undefined) where.push(`d.created_at >= ${bind(new Date(fromMs))}`)
  if (toMs !== undefined) where.push(`d.created_at < ${bind(new Date(toMs))}`)
  if (after !== undefined) {
    where.push(`(d.position, d.endpoint_id) < (${bind(after.position)}, ${bind(after.endpointId)})`)
  }
  const result = await pool.query<DeliveryRow>(
    // Joins through the business's endpoints, because deliveries are indexed by endpoint.
    `with logged as materialized (select * from event_log where event_id = $1)
      select ${DELIVERY_COLUMNS}
      from logged l join outbox o on o.seq = l.outbox_seq
        join webhook_endpoint e on e.business_id = l.business_id
        join webhook_delivery d on d.endpoint_id = e.id and d.position = l.position
      where ${['true', ...where].join(' and ')}
      order by d.position desc, d.endpoint_id desc limit ${bind(limit)}`,
    values,
  )
  return result.rows.map(toDelivery)
}

export async function findDelivery(pool: Pool, id: string): Promise<StoredDelivery | undefined> {
  const result = await pool.query<DeliveryRow>({
    name: 'webhook-delivery-find',
    text: `select ${DELIVERY_COLUMNS} from webhook_delivery d join webhook_endpoint e on e.id = d.endpoint_id
        left join event_log l on l.position = d.position left join outbox o on o.seq = l.outbox_seq
      where d.id = $1`,
    values: [id],
  })
  const [row] = result.rows
  return row && toDelivery(row)
}

/** A delivery with its latest attempts, oldest first. */
interface FoundDelivery {
  readonly delivery: StoredDelivery
  readonly attempts: readonly StoredAttempt[]
  /** The sequence number of the previous event for the endpoint; 0 for the first. */
  readonly previousSequence: number
  /** The business and mode of its endpoint, whose row stays when the endpoint is deleted. */
  readonly businessId: string
  readonly live: boolean
}

/** A delivery and its latest attempts, oldest first. */
export type AttemptedDelivery = Pick<FoundDelivery, 'delivery' | 'attempts'>

/** Lists the deliveries of a business's events at some positions, in that order. */
export async function listAtPositions(
  pool: Pool,
  businessId: string,
  positions: readonly bigint[],
  limits: { readonly deliveries: number; readonly attempts: number },
): Promise<readonly AttemptedDelivery[]> {
  const { rows } = await pool.query<DeliveryRow & { log: StoredAttempt[] }>({
    name: 'webhook-delivery-at-positions',
    text: `select ${DELIVERY_COLUMNS}, array(${ATTEMPTS} limit $4) as log
      from unnest($2::int8[]) as p(position) cross join webhook_endpoint e
      cross join lateral (select * from webhook_delivery
        where endpoint_id = e.id and position = p.position offset 0) d
      left join event_log l on l.position = d.position left join outbox o on o.seq = l.outbox_seq
      where e.business_id = $1 order by d.position, e.id limit $3`,
    values: [businessId, bigintArray(positions), limits.deliveries, limits.attempts],
  })
  return rows.map((row) => ({
    delivery: toDelivery(row),
    attempts: row.log.reverse(),
  }))
}

function toDelivery(row: DeliveryRow): StoredDelivery {
  return { ...row, position: BigInt(row.position) }
}

/** The maximum number of attempts shown; only deliveries redelivered many times have more. */
const ATTEMPTS_MAX = 100

interface ListDeliveries extends DeliveryFilter {
  readonly pageSize: number
  readonly pageToken: string
}

/** One page, newest event first; empty for an unknown endpoint, event or business. */
export async function listDeliveries(pool: Pool, request: ListDeliveries) {
  const page = readPage(request.pageSize, request.pageToken, 2)
  const after = page.after && readKey(page.after)
  const { eventId, states, fromMs, toMs } = request
  const limit = page.limit + 1
  if (eventId !== undefined) {
    return cutPage(await listOfEvent(pool, eventId, request, after, limit), page, keyOf)
  }
  // A delivery is created after its event was logged.
  const before =
    toMs === undefined ? undefined : await firstPositionAt(pool, toMs + CLOCK_SKEW_MAX_MS)
  const endpointIds = await findEndpointIds(pool, request)
  const scan = { endpointIds, states, fromMs, toMs, before, after, limit }
  const { deliveries, readUpTo } = await scanDeliveries(pool, scan)
  return cutScan(deliveries, page, keyOf, readUpTo && keyOf(readUpTo))
}

/** The endpoints whose deliveries to list: a single endpoint, which may be deleted, or all endpoints of a business. */
async function findEndpointIds(
  pool: Pool,
  { endpointId, businessId, live }: ListDeliveries,
): Promise<readonly string[]> {
  if (endpointId === undefined) {
    const { rows } = await pool.query<{ id: string }>(
      `select id from webhook_endpoint
        where business_id = $1 and live = coalesce($2, live) and deleted_at is null`,
      [businessId ?? '', live ?? null],
    )
    return rows.map(({ id }) => id)
  }
  if (businessId === undefined && live === undefined) return [endpointId]
  const { rows } = await pool.query<{ id: string }>(
    `select id from webhook_endpoint
      where id = $1 and business_id = coalesce($2, business_id) and live = coalesce($3, live)`,
    [endpointId, businessId ?? null, live ?? null],
  )
  return rows.map(({ id }) => id)
}

function keyOf({ position, endpointId }: DeliveryPlace): readonly string[] {
  return [`${position}`, endpointId]
}

function readKey([position = '', endpointId = '']: readonly string[]) {
  if (!/^\d{1,18}$/.test(position)) throw invalidPageToken()
  return { position: BigInt(position), endpointId }
}

/** Reads a delivery and its latest attempts, oldest first, in one snapshot. @throws Fault not_found */
export async function getDelivery(pool: Pool, id: string): Promise<FoundDelivery> {
  const result = await pool.query<
    DeliveryRow & {
      log: StoredAttempt[]
      previous_sequence: string
      business_id: string
      live: boolean
    }
  >({
    name: 'webhook-delivery-with-attempts',
    text: `select ${DELIVERY_COLUMNS}, array(${ATTEMPTS} limit $2) as log,
        d.previous_sequence, e.business_id, e.live
      from webhook_delivery d join webhook_endpoint e on e.id = d.endpoint_id
        left join event_log l on l.position = d.position left join outbox o on o.seq = l.outbox_seq
      where d.id = $1`,
    values: [id, ATTEMPTS_MAX],
  })
  const [row] = result.rows
  if (row === undefined) throw noSuchDelivery()
  const {
    log,
    previous_sequence: previousSequence,
    business_id: businessId,
    live,
    ...delivery
  } = row
  return {
    delivery: toDelivery(delivery),
    attempts: log.reverse(),
    previousSequence: Number(previousSequence),
    businessId,
    live,
  }
}

export function noSuchDelivery(): Fault {
  return new Fault('not_found', 'There is no such delivery')
}

/** How many deliveries a page reads at most. */
const ROWS_MAX = 2_000

interface ScanRequest {
  readonly endpointIds: readonly string[]
  readonly states: readonly DeliveryState[] | undefined
  /** When they were created; epoch milliseconds. */
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
  /** Only events before this position: a page that ends earlier need not read those after it. */
  readonly before: bigint | undefined
  readonly after: DeliveryPlace | undefined
  readonly limit: number
}

/** The deliveries found, and the place up to which was scanned if the scan reached its bound. */
interface Scanned {
  readonly deliveries: readonly StoredDelivery[]
  readonly readUpTo: DeliveryPlace | undefined
}

interface Edge {
  readonly edge_position: string | null
  readonly edge_endpoint: string | null
  readonly edge_created_at_ms: number | null
}

/**
 * Lists deliveries to some endpoints, newest event first. Each endpoint is read up to a bound of its own. The page ends
 * at the newest place at which one of these reads ended, and the next page begins there.
 */
async function scanDeliveries(pool: Queryable, request: ScanRequest): Promise<Scanned> {
  const { endpointIds, limit, fromMs } = request
  if (endpointIds.length === 0) return { deliveries: [], readUpTo: undefined }
  const { values, bind } = bindValues(limit, endpointIds)
  const range = rangeOf(request, bind)
  const rowsMax = Math.ceil(ROWS_MAX / endpointIds.length)
  const scanned = (columns: string, cut: string) =>
    `select c.* from unnest($2::text[]) as k(key) cross join lateral (
        select ${columns} from webhook_delivery where ${range.join(' and ')} order by position desc ${cut}) c`
  const latest = 'order by position desc, endpoint_id desc'
  const { rows } = await pool.query<Edge & (DeliveryRow | { readonly id: null })>(
    `with edge as materialized (
        select * from (${scanned('position, endpoint_id, created_at', `offset ${rowsMax - 1} limit 1`)}) e
        ${latest} limit 1
      ), page as materialized (
        select * from (${scanned('*', `limit ${rowsMax}`)}) d
        where ${conditionsOf(request, bind).join(' and ')}
          and not exists (select from edge
            where (d.position, d.endpoint_id) < (edge.position, edge.endpoint_id))
        ${latest} limit $1
      )
      select edge.position as edge_position, edge.endpoint_id as edge_endpoint,
        round(date_part('epoch', edge.created_at) * 1000) as edge_created_at_ms, ${DELIVERY_COLUMNS}
      -- One row says where the scan ended, also when nothing was found.
      from (select) one left join edge on true
        left join (
          page d join webhook_endpoint e on e.id = d.endpoint_id
          left join event_log l on l.position = d.position left join outbox o on o.seq = l.outbox_seq
        ) on true
      order by d.position desc, d.endpoint_id desc`,
    values,
  )
  const deliveries = rows.flatMap((row) => (row.id === null ? [] : [toDelivery(row)]))
  const { edge_position: position, edge_endpoint: endpointId, edge_created_at_ms } = rows[0] ?? {}
  // Deliveries are created in the order of positions, so all deliveries before the edge are older.
  const isOlder = fromMs !== undefined && (edge_created_at_ms ?? 0) < fromMs - CLOCK_SKEW_MAX_MS
  if (!position || !endpointId || isOlder) return { deliveries, readUpTo: undefined }
  return { deliveries, readUpTo: { position: BigInt(position), endpointId } }
}

function rangeOf(
  { states, before, after }: ScanRequest,
  bind: (value: unknown) => string,
): readonly string[] {
  const range = ['endpoint_id = k.key']
  // A literal, so that the planner can use the partial index on this state.
  if (isFailedOnly(states)) range.push("state = 'FAILED'")
  if (before !== undefined) range.push(`position < ${bind(before)}`)
  if (after !== undefined) {
    const [position, endpointId] = [bind(after.position), bind(after.endpointId)]
    range.push(
      `position <= ${position}::bigint and (position < ${position} or endpoint_id < ${endpointId})`,
    )
  }
  return range
}

function conditionsOf(
  { states, fromMs, toMs }: ScanRequest,
  bind: (value: unknown) => string,
): readonly string[] {
  return [
    'true',
    ...(states === undefined || isFailedOnly(states)
      ? []
      : [`d.state = any (${bind(states)}::text[])`]),
    ...(fromMs === undefined ? [] : [`d.created_at >= ${bind(new Date(fromMs))}`]),
    ...(toMs === undefined ? [] : [`d.created_at < ${bind(new Date(toMs))}`]),
  ]
}

function isFailedOnly(states: readonly DeliveryState[] | undefined): boolean {
  return states?.length === 1 && states[0] === 'FAILED'
}
