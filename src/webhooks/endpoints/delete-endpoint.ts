import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { lockEndpoint } from './find-endpoint.ts'

/**
 * Removes an endpoint. Its row stays while deliveries made to it name it; those that are pending
 * are never claimed again, those under way end, and retention gives up what is left.
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
    await appendAudit(em, actor, {
      action: 'endpoint.delete',
      targetId: endpointId,
      businessId: endpoint.business,
    })
  })
}
