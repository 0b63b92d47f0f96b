import type { Pool } from 'pg'
import { Fault } from '../../core/errors.ts'
import { cutScan } from '../../postgres/bounded-scan.ts'
import { cutPage, invalidPageToken, readPage } from '../../postgres/page-token.ts'
import type { StoredAttempt, StoredDelivery } from './delivery.ts'
import {
  type DeliveryFilter,
  findWithAttempts,
  listOfEndpoint,
  listOfEvent,
} from './read-deliveries.ts'

/** The maximum number of attempts shown; only deliveries redelivered many times have more. */
const ATTEMPTS_MAX = 100

interface ListDeliveries extends DeliveryFilter {
  readonly pageSize: number
  readonly pageToken: string
}

/** One page, newest event first; empty for an unknown endpoint or event. */
export async function listDeliveries(pool: Pool, request: ListDeliveries) {
  const page = readPage(request.pageSize, request.pageToken, 2)
  const after = page.after && readKey(page.after)
  const { endpointId = '', eventId, state } = request
  if (eventId !== undefined) {
    return cutPage(await listOfEvent(pool, eventId, request, after, page.limit + 1), page, keyOf)
  }
  const found = await listOfEndpoint(pool, endpointId, state, after, page.limit + 1)
  const edge = found.readUpTo && [found.readUpTo, endpointId]
  return cutScan(found.deliveries, page, keyOf, edge)
}

function keyOf({ position, endpointId }: StoredDelivery): readonly string[] {
  return [`${position}`, endpointId]
}

function readKey([position = '', endpointId = '']: readonly string[]) {
  if (!/^\d{1,18}$/.test(position)) throw invalidPageToken()
  return { position: BigInt(position), endpointId }
}

/** @throws Fault not_found */
export async function getDelivery(
  pool: Pool,
  id: string,
): Promise<{ delivery: StoredDelivery; attempts: StoredAttempt[] }> {
  const found = await findWithAttempts(pool, id, ATTEMPTS_MAX)
  if (found === undefined) throw noSuchDelivery()
  return found
}

export function noSuchDelivery(): Fault {
  return new Fault('not_found', 'No such delivery')
}
