import { type Endpoint, EndpointEntity } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'

/** The live endpoints of a business, newest first; a business has few. */
export async function listEndpoints(
  { orm }: EndpointContext,
  businessId: string,
): Promise<Endpoint[]> {
  return orm.em
    .fork()
    .find(EndpointEntity, { business: businessId, deletedAt: null }, { orderBy: { id: 'desc' } })
}
