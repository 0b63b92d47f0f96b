import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import { BusinessEntity } from './business.entity.ts'

/** A secret key: of the secret itself only the hash is kept. */
export const KeyEntity = defineEntity({
  name: 'Key',
  tableName: 'api_key',
  properties: {
    id: p.text().primary(),
    business: p.manyToOne(BusinessEntity).mapToPk(),
    live: p.boolean(),
    prefix: p.text(),
    secretHash: p.blob(),
    createdAt: p.datetime(3),
    expiresAt: p.datetime(3).nullable(),
    revokedAt: p.datetime(3).nullable(),
    /** The ranges of addresses it works from, in their normal form; none: from anywhere. */
    allowedCidrs: p.array(),
    /** Some half a minute late, and never written in a request's way. */
    lastUsedAt: p.datetime(3).nullable(),
  },
  indexes: [{ properties: ['business', 'id'] }],
})

export type Key = InferEntity<typeof KeyEntity>
