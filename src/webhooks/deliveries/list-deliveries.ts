import type { Pool } from 'pg'
import { CLOCK_SKEW_MAX_MS } from '../../core/durations.ts'
import { Fault } from '../../core/errors.ts'
import { leftJoinEvent } from '../../events/log.sql.ts'
import { firstPositionAt } from '../../events/log-state.ts'
import { bindValues } from '../../postgres/bind-values.ts'
import { cutScan } from '../../postgres/bounded-scan.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { cutPage, invalidPageToken, readPage } from '../../postgres/page-token.ts'
import type { DeliveryPlace, DeliveryState, StoredDelivery } from './delivery.ts'
import {
  DELIVERY_COLUMNS,
  type DeliveryFilter,
  type DeliveryRow,
  type FoundDelivery,
  findWithAttempts,
  listOfEvent,
  toDelivery,
} from './read-deliveries.ts'

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

/** The endpoints whose deliveries to list: one, which may be deleted, or those of a business. */
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

/** @throws Fault not_found */
export async function getDelivery(pool: Pool, id: string): Promise<FoundDelivery> {
  const found = await findWithAttempts(pool, id, ATTEMPTS_MAX)
  if (found === undefined) throw noSuchDelivery()
  return found
}

export function noSuchDelivery(): Fault {
  return new Fault('not_found', 'No such delivery')
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

/** @returns the deliveries, and the place up to which it scanned if the scan reached its bound */
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
 * Lists deliveries to some endpoints, newest event first. Each endpoint is read up to a bound of its own; what is
 * before where the first of them ended is left to the next page.
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
        ${epochMs('edge.created_at')} as edge_created_at_ms, ${DELIVERY_COLUMNS}
      from (select) one left join edge on true
        left join (page d ${leftJoinEvent('d.position')}) on true
      order by d.position desc, d.endpoint_id desc`,
    values,
  )
  const deliveries = rows.flatMap((row) => (row.id === null ? [] : [toDelivery(row)]))
  const { edge_position: position, edge_endpoint: endpointId, edge_created_at_ms } = rows[0] ?? {}
  // Deliveries are created in the order of positions: before the edge there are older ones only.
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
