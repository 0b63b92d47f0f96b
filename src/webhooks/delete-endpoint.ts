import { EndpointEntity } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { noSuchEndpoint } from './find-endpoint.ts'

/**
 * Removes an endpoint. Its row stays while deliveries made to it name it; those that are pending
 * are never claimed again, those under way end, and retention gives up what is left.
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
  if (deleted === 0) throw noSuchEndpoint()
}
