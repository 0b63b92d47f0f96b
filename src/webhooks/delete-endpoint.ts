import { Fault } from '../errors.ts'
import { EndpointEntity } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'

/**
 * Removes an endpoint. Its row stays, as deliveries made to it name it; deliveries that are pending
 * are never claimed again, those under way end.
 *
 * @throws Fault not_found
 */
export async function deleteEndpoint(
  { orm, clock }: EndpointContext,
  endpointId: string,
): Promise<void> {
  const deleted = await orm.em
    .fork()
    .nativeUpdate(
      EndpointEntity,
      { id: endpointId, deletedAt: null },
      { deletedAt: new Date(clock.now()) },
    )
  if (deleted === 0) throw new Fault('not_found', 'No such endpoint')
}
