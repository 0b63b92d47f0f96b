import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import type { EndpointContext } from '../endpoints/endpoint-context.ts'
import { publishEndpointEvent } from '../endpoints/endpoint-event.ts'
import { lockEnabledEndpoint } from '../endpoints/find-endpoint.ts'

/**
 * Records a test event, which is sent to this endpoint only.
 *
 * @returns the event's id
 * @throws Fault not_found, endpoint_disabled
 */
export async function sendTestEvent(
  { orm, clock, onCommit }: EndpointContext,
  endpointId: string,
  actor: Actor,
): Promise<string> {
  const eventId = await orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEnabledEndpoint(em, endpointId)
    const id = await publishEndpointEvent(em, 'ENDPOINT_TEST', endpoint, clock.now())
    await appendAudit(em, actor, {
      action: 'endpoint.test',
      targetId: endpointId,
      businessId: endpoint.business,
      details: { eventId: id },
    })
    return id
  })
  onCommit()
  return eventId
}
