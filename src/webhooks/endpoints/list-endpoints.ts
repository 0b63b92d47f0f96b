import type { EntityManager } from '@mikro-orm/postgresql'
import { cutScan } from '../../postgres/bounded-scan.ts'
import { readPage } from '../../postgres/page-token.ts'
import { connectionOf } from '../connections/apply-connection.ts'
import { type EndpointFilter, findEndpoints } from '../lists/find-endpoints.ts'
import type { EndpointWithSecrets } from '../message.ts'
import { readBlocks } from '../ordered/read-blocks.ts'
import { EndpointEntity, type Secret, SecretEntity } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'

/** More than the endpoints of a business, in both modes. */
const PAGE_SIZE_DEFAULT = 200

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
  const { ids, readUpTo } = await findEndpoints(
    context.pool,
    request,
    page.after?.[0],
    page.limit + 1,
  )
  const cut = cutScan(ids, page, (id) => [id], readUpTo && [readUpTo])
  return { ...cut, rows: await describe(context, cut.rows) }
}

/** What lists show of endpoints, newest first. */
async function describe(
  { orm, pool, clock, encrypter }: EndpointContext,
  ids: readonly string[],
): Promise<EndpointWithSecrets[]> {
  const em = orm.em.fork()
  const endpoints = await em.find(
    EndpointEntity,
    { id: { $in: [...ids] }, deletedAt: null },
    { orderBy: { id: 'desc' } },
  )
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
