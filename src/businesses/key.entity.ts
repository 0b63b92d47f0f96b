import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { KeyScope } from '../auth/caller.ts'
import { BusinessEntity } from './business.entity.ts'

/** A secret key. Only the hash of the secret is stored. */
export const KeyEntity = defineEntity({
  name: 'Key',
  tableName: 'api_key',
  properties: {
    id: p.text().primary(),
    business: p.manyToOne(BusinessEntity),
    live: p.boolean(),
    prefix: p.text(),
    secretHash: p.blob(),
    createdAt: p.datetime(3),
    expiresAt: p.datetime(3).nullable(),
    revokedAt: p.datetime(3).nullable(),
    /** The address ranges that the key may be used from, in canonical form; empty: any address. */
    allowedCidrs: p.array(),
    /** What the key may be used for; empty: the methods that are open to keys without scopes. */
    scopes: p.array().$type<KeyScope[]>().default([]),
    /** Up to half a minute late, as it is written in the background. */
    lastUsedAt: p.datetime(3).nullable(),
    /** Whether the text is another provider's, which names no id: it is found by its hash. */
    imported: p.boolean().default(false),
  },
  indexes: [
    { properties: ['business', 'id'] },
    {
      name: 'api_key_imported_index',
      expression:
        'create unique index api_key_imported_index on "api_key" (secret_hash) where imported',
    },
  ],
  checks: [
    {
      name: 'api_key_scopes',
      expression:
        "scopes <@ array['accounts:read', 'accounts:create', 'accounts:write', 'payments:read', 'payments:decide', 'payments:requery', 'payments:simulate', 'events:read', 'balances:read', 'webhooks:read', 'webhooks:write', 'payouts']",
    },
  ],
})

export type Key = InferEntity<typeof KeyEntity>
