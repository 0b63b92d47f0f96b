import type { EntityManager } from '@mikro-orm/postgresql'
import { queriesOf } from '../postgres/queries-of.ts'
import type { DeliveryEntity } from './deliveries/delivery.entity.ts'
import { EndpointEntity } from './endpoints/endpoint.entity.ts'

/** The business of an endpoint, deleted ones included; undefined if there is no such endpoint. */
export async function endpointOwner(em: EntityManager, id: string): Promise<string | undefined> {
  const endpoint = await em.findOne(EndpointEntity, id, { fields: ['business'] })
  return endpoint?.business
}

/** The business of a delivery; undefined if there is no such delivery. */
export async function deliveryOwner(em: EntityManager, id: string): Promise<string | undefined> {
  const owner = await queriesOf<typeof DeliveryEntity | typeof EndpointEntity>(em)
    .selectFrom('webhook_delivery as d')
    .innerJoin('webhook_endpoint as e', 'e.id', 'd.endpoint')
    .select('e.business')
    .where('d.id', '=', id)
    .executeTakeFirst()
  return owner?.business
}
