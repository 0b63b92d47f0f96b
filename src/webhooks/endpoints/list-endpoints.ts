import { type EntityManager, LockMode, type MikroORM } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { Owner } from '../../auth/method-policy.ts'
import { Fault } from '../../core/errors.ts'
import type { Database } from '../../postgres/orm.ts'
import { cutPage, readPage } from '../../postgres/page-token.ts'
import { connectionOf } from '../connections/apply-connection.ts'
import { SCANNED_MAX } from '../deliveries/claim-ordered.ts'
import { DeliveryEntity } from '../deliveries/delivery.entity.ts'
import type { OrderBlock, StoredDelivery } from '../deliveries/delivery.ts'
import { findDelivery } from '../deliveries/read-deliveries.ts'
import type { EndpointWithSecrets } from '../message.ts'
import { type Endpoint, EndpointEntity, type Secret } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint.ts'

/** More than the endpoints of a business, in both modes. */
const PAGE_SIZE_DEFAULT = 200

/** Which endpoints to list; deleted endpoints are never listed. An undefined field does not filter. */
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
  const found = await context.database.orm.em.fork().find(
    EndpointEntity,
    {
      deletedAt: null,
      ...(after !== undefined && { id: { $lt: after } }),
      ...(businessIds && { business: { $in: [...businessIds] } }),
      ...(live !== undefined && { live }),
      ...(enabled !== undefined && { disabledAt: enabled ? null : { $ne: null } }),
      ...(failing !== undefined && { failingSince: failing ? { $ne: null } : null }),
    },
    {
      populate: ['secrets'],
      populateWhere: { secrets: activeAt(context.clock.now()) },
      populateOrderBy: { secrets: { number: 'desc' } },
      orderBy: { id: 'desc' },
      limit: page.limit + 1,
    },
  )
  const { rows, nextPageToken } = cutPage(found, page, ({ id }) => [id])
  return { rows: await describe(context, rows), nextPageToken }
}

/** Describes endpoints for lists. Their active secrets are loaded. */
async function describe(
  { database: { durablePool }, encrypter }: EndpointContext,
  endpoints: readonly Endpoint[],
): Promise<EndpointWithSecrets[]> {
  const ordered = endpoints.filter((endpoint) => endpoint.ordered).map((endpoint) => endpoint.id)
  const blocks = await readBlocks(durablePool, ordered)
  return endpoints.map((endpoint) => ({
    endpoint,
    secrets: endpoint.secrets.getItems(),
    connection: connectionOf(encrypter, endpoint),
    blockedBy: blocks.get(endpoint.id),
  }))
}

/** The active signing secrets of an endpoint, newest first. */
export async function activeSecrets({ secrets }: Endpoint, nowMs: number): Promise<Secret[]> {
  return secrets.matching({ where: activeAt(nowMs), orderBy: { number: 'desc' } })
}

/** The condition of active secrets. */
function activeAt(nowMs: number) {
  return { $or: [{ expiresAt: null }, { expiresAt: { $gt: new Date(nowMs) } }] }
}

/** How many waiting deliveries are counted. */
const WAITING_MAX = 1_000

/** The delivery for which each ordered endpoint waits, by endpoint id: the first pending delivery, if an attempt failed. */
async function readBlocks(
  pool: Pool,
  endpointIds: readonly string[],
): Promise<ReadonlyMap<string, OrderBlock>> {
  if (endpointIds.length === 0) return new Map()
  const { rows } = await pool.query<OrderBlock>({
    name: 'webhook-order-blocks',
    text: `select d.endpoint_id as "endpointId", d.id as "deliveryId", d.attempts,
        coalesce(d.error, '') as error,
        round(date_part('epoch', coalesce(d.leased_until, d.due_at)) * 1000) as "dueAtMs",
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
  const lockMode = LockMode.PESSIMISTIC_WRITE
  const existing = { id: endpointId, deletedAt: null }
  const endpoint = await em.findOne(EndpointEntity, existing, { lockMode })
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
  return new Fault('not_found', 'There is no such endpoint')
}

/** An endpoint that is not deleted. */
export async function findEndpoint({ em }: MikroORM, id: string): Promise<Endpoint | undefined> {
  return (await em.fork().findOne(EndpointEntity, { id, deletedAt: null })) ?? undefined
}

/** A delivery with its endpoint, which is not deleted. */
export async function findDeliveryWithEndpoint(
  { durablePool, orm }: Database,
  id: string,
): Promise<{ readonly delivery: StoredDelivery; readonly endpoint: Endpoint } | undefined> {
  const delivery = await findDelivery(durablePool, id)
  const endpoint = delivery && (await findEndpoint(orm, delivery.endpointId))
  return delivery && endpoint && { delivery, endpoint }
}

/** The business of an endpoint, which may be deleted; undefined if there is no such endpoint. */
export async function endpointOwner(em: EntityManager, id: string): Promise<Owner | undefined> {
  const endpoint = await em.findOne(EndpointEntity, id, { fields: ['business', 'live'] })
  return endpoint ? { businessId: endpoint.business.id, live: endpoint.live } : undefined
}

/** The business of a delivery; undefined if there is no such delivery. */
export async function deliveryOwner(em: EntityManager, id: string): Promise<Owner | undefined> {
  const fields = ['endpoint.business', 'endpoint.live'] as const
  const delivery = await em.findOne(DeliveryEntity, { id }, { fields })
  if (!delivery) return undefined
  return { businessId: delivery.endpoint.business.id, live: delivery.endpoint.live }
}
