import { defineEntity, type InferEntity, p } from '@mikro-orm/core'

export const BusinessEntity = defineEntity({
  name: 'Business',
  tableName: 'business',
  properties: {
    id: p.text().primary(),
    name: p.text(),
    alias: p.text(),
    createdAt: p.datetime(3),
  },
})

export type Business = InferEntity<typeof BusinessEntity>
