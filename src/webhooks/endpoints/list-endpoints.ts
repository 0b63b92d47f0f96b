import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import { Fault } from '../../core/errors.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import { lockRow } from '../../postgres/lock-row.ts'
import { cutPage, readPage } from '../../postgres/page-token.ts'
import { connectionOf } from '../connections/apply-connection.ts'
import { SCANNED_MAX } from '../deliveries/claim-ordered.ts'
import type { OrderBlock, StoredDelivery } from '../deliveries/delivery.ts'
import { findDelivery } from '../deliveries/read-deliveries.ts'
import type { EndpointWithSecrets } from '../message.ts'
import { type Endpoint, EndpointEntity, type Secret, SecretEntity } from './endpoint.entity.ts'
import type { DisabledReason } from './endpoint.ts'
import type { EndpointContext } from './endpoint-context.ts'

/** More than the endpoints of a business, in both modes. */
const PAGE_SIZE_DEFAULT = 200

/** Which endpoints to list, of those that are not deleted; an undefined field does not filter. */
export interface EndpointFilter {
  readonly businessIds: readonly string[] | undefined
  readonly live?: boolean | undefined
  readonly enabled?: boolean | undefined
  /** Whether the latest attempt failed. */
  readonly failing?: boolean | undefined
}

interface ListEndpoints extends EndpointFilter {
  /** 0: all endpoints of a business. */
  readonly pageSize: number
  readonly pageToken: string
}

/** One page of endpoints that are not deleted, newest first. @throws Fault validation_failed (the page token) */
export async function listEndpoints(
  context: EndpointContext,
  request: ListEndpoints,
): Promise<{ readonly rows: readonly EndpointWithSecrets[]; readonly nextPageToken: string }> {
  const page = readPage(request.pageSize || PAGE_SIZE_DEFAULT, request.pageToken, 1)
  const after = page.after?.[0]
  const { businessIds, live, enabled, failing } = request
  const em = context.orm.em.fork()
  const found = await em.find(
    EndpointEntity,
    {
      deletedAt: null,
      ...(after !== undefined && { id: { $lt: after } }),
      ...(businessIds && { business: { $in: [...businessIds] } }),
      ...(live !== undefined && { live }),
      ...(enabled !== undefined && { disabledAt: enabled ? null : { $ne: null } }),
      ...(failing !== undefined && { failingSince: failing ? { $ne: null } : null }),
    },
    { orderBy: { id: 'desc' }, limit: page.limit + 1 },
  )
  const { rows, nextPageToken } = cutPage(found, page, ({ id }) => [id])
  return { rows: await describe(context, em, rows), nextPageToken }
}

/** What lists show of endpoints. */
async function describe(
  { pool, clock, encrypter }: EndpointContext,
  em: EntityManager,
  endpoints: readonly Endpoint[],
): Promise<EndpointWithSecrets[]> {
  const ids = endpoints.map(({ id }) => id)
  const secrets = await activeSecrets(em, ids, clock.now())
  const ordered = endpoints.filter((endpoint) => endpoint.ordered).map((endpoint) => endpoint.id)
  const blocks = await readBlocks(pool, ordered)
  return endpoints.map((endpoint) => ({
    endpoint,
    secrets: secrets.filter((secret) => secret.endpoint === endpoint.id),
    connection: connectionOf(encrypter, endpoint),
    blockedBy: blocks.get(endpoint.id),
  }))
}

/** The active signing secrets of endpoints, the newest of each endpoint first. */
export async function activeSecrets(
  em: EntityManager,
  endpointIds: readonly string[],
  nowMs: number,
): Promise<Secret[]> {
  return em.find(
    SecretEntity,
    {
      endpoint: { $in: [...endpointIds] },
      $or: [{ expiresAt: null }, { expiresAt: { $gt: new Date(nowMs) } }],
    },
    { orderBy: { endpoint: 'asc', number: 'desc' } },
  )
}

/** How many waiting deliveries are counted. */
const WAITING_MAX = 1_000

/** What ordered endpoints wait for, by their ids: the first pending delivery, if an attempt failed. */
async function readBlocks(
  pool: Pool,
  endpointIds: readonly string[],
): Promise<ReadonlyMap<string, OrderBlock>> {
  if (endpointIds.length === 0) return new Map()
  const { rows } = await pool.query<OrderBlock>({
    name: 'webhook-order-blocks',
    text: `select d.endpoint_id as "endpointId", d.id as "deliveryId", d.attempts,
        coalesce(d.error, '') as error, ${epochMs('coalesce(d.leased_until, d.due_at)')} as "dueAtMs",
        (select count(*)::int from (select from webhook_delivery w
          where w.endpoint_id = d.endpoint_id and w.state = 'PENDING' and w.position > d.position
          limit ${WAITING_MAX}) waiting) as waiting
      from unnest($1::text[]) as a(endpoint_id)
      cross join lateral (select ordered_from from webhook_endpoint
        where id = a.endpoint_id offset 0) e
      cross join lateral (select * from (
          select * from webhook_delivery
          where endpoint_id = a.endpoint_id and position >= e.ordered_from order by position limit ${SCANNED_MAX}
        ) of_endpoint where state = 'PENDING' limit 1) d
      where d.attempts > d.schedule_from and d.error <> ''`,
    values: [endpointIds],
  })
  return new Map(rows.map((row) => [row.endpointId, row]))
}

/**
 * Finds an endpoint and locks it against changes until the transaction ends.
 *
 * @throws Fault not_found, also for a deleted endpoint
 */
export async function lockEndpoint(em: EntityManager, endpointId: string): Promise<Endpoint> {
  await lockRow(em, EndpointEntity, endpointId)
  const endpoint = await em.findOne(EndpointEntity, { id: endpointId, deletedAt: null })
  if (endpoint === null) throw noSuchEndpoint()
  return endpoint
}

/** Like `lockEndpoint`, for an enabled endpoint. @throws Fault not_found, endpoint_disabled */
export async function lockEnabledEndpoint(
  em: EntityManager,
  endpointId: string,
): Promise<Endpoint> {
  const endpoint = await lockEndpoint(em, endpointId)
  if (endpoint.disabledAt !== null) {
    throw new Fault('endpoint_disabled', 'The endpoint is disabled; enable it first')
  }
  return endpoint
}

function noSuchEndpoint(): Fault {
  return new Fault('not_found', 'No such endpoint')
}

/** An endpoint, as a search shows it. */
export interface FoundEndpoint {
  readonly id: string
  readonly businessId: string
  readonly live: boolean
  readonly url: string
  readonly createdAtMs: number
  readonly disabledReason: DisabledReason | null
}

/** An endpoint that is not deleted. */
export async function findEndpoint(pool: Pool, id: string): Promise<FoundEndpoint | undefined> {
  const { rows } = await pool.query<FoundEndpoint>({
    name: 'webhook-endpoint-find',
    text: `select id, business_id as "businessId", live, url,
        ${epochMs('created_at')} as "createdAtMs", disabled_reason as "disabledReason"
      from webhook_endpoint where id = $1 and deleted_at is null`,
    values: [id],
  })
  return rows[0]
}

/** A delivery with its endpoint, which is not deleted. */
export async function findDeliveryWithEndpoint(
  pool: Pool,
  id: string,
): Promise<{ readonly delivery: StoredDelivery; readonly endpoint: FoundEndpoint } | undefined> {
  const delivery = await findDelivery(pool, id)
  const endpoint = delivery && (await findEndpoint(pool, delivery.endpointId))
  return delivery && endpoint && { delivery, endpoint }
}
