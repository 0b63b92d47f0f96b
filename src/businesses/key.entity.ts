import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import { BusinessEntity } from './business.entity.ts'

/** A secret key: of the secret itself only the hash is kept. */
export const KeyEntity = defineEntity({
  name: 'Key',
  tableName: 'api_key',
  properties: {
    id: p.text().primary(),
    business: p.manyToOne(BusinessEntity).mapToPk().index(),
    prefix: p.text(),
    secretHash: p.blob(),
    createdAt: p.datetime(3),
    expiresAt: p.datetime(3).nullable(),
    revokedAt: p.datetime(3).nullable(),
  },
})

export type Key = InferEntity<typeof KeyEntity>
