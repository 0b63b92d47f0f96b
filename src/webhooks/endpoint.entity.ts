import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import { BusinessEntity } from '../businesses/business.entity.ts'

export const EndpointEntity = defineEntity({
  name: 'Endpoint',
  tableName: 'webhook_endpoint',
  properties: {
    id: p.text().primary(),
    business: p.manyToOne(BusinessEntity).mapToPk(),
    url: p.text(),
    kinds: p.array(),
    description: p.text(),
    /** The signing secret, encrypted. */
    secretSealed: p.blob(),
    /** The last position of the event log when it was made: it receives the events after it. */
    afterPosition: p.bigint(),
    createdAt: p.datetime(3),
    deletedAt: p.datetime(3).nullable(),
  },
  indexes: [{ properties: ['business', 'id'] }],
})

export type Endpoint = InferEntity<typeof EndpointEntity>
