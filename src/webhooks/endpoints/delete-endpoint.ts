import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { lockEndpoint } from './find-endpoint.ts'

/**
 * Deletes an endpoint, and the headers and credentials it was given. Its row stays while deliveries refer to it. Pending deliveries are no longer
 * claimed, attempts in progress finish, and retention fails the rest.
 *
 * @throws Fault not_found
 */
export async function deleteEndpoint(
  { orm, clock }: EndpointContext,
  endpointId: string,
  actor: Actor,
): Promise<void> {
  await orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEndpoint(em, endpointId)
    endpoint.deletedAt = new Date(clock.now())
    endpoint.connectionEncrypted = null
    endpoint.certificateExpiresAt = null
    endpoint.connectionVersion += 1
    await appendAudit(em, actor, {
      action: 'endpoint.delete',
      targetId: endpointId,
      businessId: endpoint.business,
    })
  })
}
