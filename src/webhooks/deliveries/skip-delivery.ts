import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault } from '../../core/errors.ts'
import { EndpointEntity } from '../endpoints/endpoint.entity.ts'
import type { EndpointContext } from '../endpoints/endpoint-context.ts'
import type { StoredDelivery } from './delivery.ts'
import { noSuchDelivery } from './list-deliveries.ts'
import { findDelivery } from './read-deliveries.ts'

/**
 * Ends a pending delivery, so that the next events of an ordered endpoint are sent. Raising the fence ends
 * any claim: what an attempt in progress results in is not recorded.
 *
 * @throws Fault not_found, delivery_completed
 */
export async function skipDelivery(
  context: EndpointContext,
  deliveryId: string,
  actor: Actor,
): Promise<StoredDelivery> {
  const { orm, pool, clock, onDue } = context
  const found = await findDelivery(pool, deliveryId)
  if (found === undefined) throw noSuchDelivery()
  const { endpointId, eventId, position } = found
  await orm.em.fork().transactional(async (em) => {
    const skipped = await em.execute<{ id: string }[]>(
      `update webhook_delivery set state = 'FAILED', completed_at = ?, failure = 'skipped',
          leased_until = null, claims = claims + 1
        where id = ? and position = ? and state = 'PENDING' returning id`,
      [new Date(clock.now()), deliveryId, position],
    )
    if (skipped.length === 0) {
      throw new Fault('delivery_completed', 'The delivery is completed already')
    }
    const endpoint = await em.findOneOrFail(EndpointEntity, endpointId, { fields: ['business'] })
    await appendAudit(em, actor, {
      action: 'delivery.skip',
      targetId: deliveryId,
      businessId: endpoint.business,
      details: { endpointId, eventId },
    })
  })
  onDue()
  const delivery = await findDelivery(pool, deliveryId)
  if (delivery === undefined) throw noSuchDelivery()
  return delivery
}
