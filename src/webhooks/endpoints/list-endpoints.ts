import type { EntityManager } from '@mikro-orm/postgresql'
import { connectionOf } from '../connections/apply-connection.ts'
import type { EndpointWithSecrets } from '../message.ts'
import { readBlocks } from '../ordered/read-blocks.ts'
import { EndpointEntity, type Secret, SecretEntity } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'

/** The endpoints of a business that are not deleted, newest first; a business has few. */
export async function listEndpoints(
  { orm, pool, clock, encrypter }: EndpointContext,
  businessId: string,
): Promise<EndpointWithSecrets[]> {
  const em = orm.em.fork()
  const endpoints = await em.find(
    EndpointEntity,
    { business: businessId, deletedAt: null },
    { orderBy: { id: 'desc' } },
  )
  const ids = endpoints.map((endpoint) => endpoint.id)
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
