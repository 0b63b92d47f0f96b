import { LockMode } from '@mikro-orm/core'
import type { EntityManager } from '@mikro-orm/postgresql'
import { Fault } from '../../core/errors.ts'
import { type Endpoint, EndpointEntity } from './endpoint.entity.ts'

/**
 * Finds an endpoint to change it, and keeps others from changing it until the transaction ends.
 *
 * @throws Fault not_found, also of one that was removed
 */
export async function lockEndpoint(em: EntityManager, endpointId: string): Promise<Endpoint> {
  const endpoint = await em.findOne(
    EndpointEntity,
    { id: endpointId, deletedAt: null },
    { lockMode: LockMode.PESSIMISTIC_WRITE },
  )
  if (endpoint === null) throw noSuchEndpoint()
  return endpoint
}

/** The same, of one that events are sent to. @throws Fault not_found, endpoint_disabled */
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
