import type { EntityManager } from '@mikro-orm/postgresql'
import { Fault } from '../../core/errors.ts'
import { lockRow } from '../../postgres/lock-row.ts'
import { type Endpoint, EndpointEntity } from './endpoint.entity.ts'

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

export function noSuchEndpoint(): Fault {
  return new Fault('not_found', 'No such endpoint')
}
