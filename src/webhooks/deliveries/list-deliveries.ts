import type { Pool } from 'pg'
import { Fault } from '../../core/errors.ts'
import { firstPositionAt } from '../../events/log-state.ts'
import { cutScan } from '../../postgres/bounded-scan.ts'
import { cutPage, invalidPageToken, readPage } from '../../postgres/page-token.ts'
import { scanDeliveries } from '../lists/scan-deliveries.ts'
import type { DeliveryPlace } from './delivery.ts'
import {
  type DeliveryFilter,
  type FoundDelivery,
  findWithAttempts,
  listOfEvent,
} from './read-deliveries.ts'

/** The maximum number of attempts shown; only deliveries redelivered many times have more. */
const ATTEMPTS_MAX = 100

/** How much the clocks of instances and of the database may differ. */
const CLOCK_SKEW_MS = 60_000

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
  const before = toMs === undefined ? undefined : await firstPositionAt(pool, toMs + CLOCK_SKEW_MS)
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
