import type { EntityManager } from '@mikro-orm/postgresql'
import type { ShownEndpoint } from '../message.ts'
import { EndpointEntity, type Secret, SecretEntity } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'

/** The live endpoints of a business, newest first; a business has few. */
export async function listEndpoints(
  { orm, clock }: EndpointContext,
  businessId: string,
): Promise<ShownEndpoint[]> {
  const em = orm.em.fork()
  const endpoints = await em.find(
    EndpointEntity,
    { business: businessId, deletedAt: null },
    { orderBy: { id: 'desc' } },
  )
  const ids = endpoints.map((endpoint) => endpoint.id)
  const secrets = await liveSecrets(em, ids, clock.now())
  return endpoints.map((endpoint) => ({
    endpoint,
    secrets: secrets.filter((secret) => secret.endpoint === endpoint.id),
  }))
}

/** The secrets that sign for endpoints now, the newest of each first. */
export async function liveSecrets(
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
