import type { EntityManager } from '@mikro-orm/postgresql'
import type { Owner } from '../auth/method-policy.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import type { DeliveryEntity } from './deliveries/delivery.entity.ts'
import { EndpointEntity } from './endpoints/endpoint.entity.ts'

/** Whose an endpoint is, deleted ones included; undefined if there is no such endpoint. */
export async function endpointOwner(em: EntityManager, id: string): Promise<Owner | undefined> {
  const endpoint = await em.findOne(EndpointEntity, id, { fields: ['business', 'live'] })
  return endpoint ? { businessId: endpoint.business, live: endpoint.live } : undefined
}

/** Whose a delivery is; undefined if there is no such delivery. */
export async function deliveryOwner(em: EntityManager, id: string): Promise<Owner | undefined> {
  return queriesOf<typeof DeliveryEntity | typeof EndpointEntity>(em)
    .selectFrom('webhook_delivery as d')
    .innerJoin('webhook_endpoint as e', 'e.id', 'd.endpoint')
    .select(['e.business as businessId', 'e.live'])
    .where('d.id', '=', id)
    .executeTakeFirst()
}
