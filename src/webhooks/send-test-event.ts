import { appendAudit } from '../audit.ts'
import type { Actor } from '../caller.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { publishEndpointEvent } from './endpoint-event.ts'
import { lockEnabledEndpoint } from './find-endpoint.ts'

/**
 * Records a test event, which goes to this endpoint alone.
 *
 * @returns the event's id
 * @throws Fault not_found, endpoint_disabled
 */
export async function sendTestEvent(
  { orm, clock, published }: EndpointContext,
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
  published()
  return eventId
}
