import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { Scope } from '../caller.ts'

/** A token of an internal service or an operator. Only the hash of the secret is stored. */
export const TokenEntity = defineEntity({
  name: 'Token',
  tableName: 'internal_token',
  properties: {
    id: p.text().primary(),
    name: p.text(),
    description: p.text(),
    prefix: p.text(),
    secretHash: p.blob(),
    scopes: p.array().$type<Scope[]>(),
    /** The businesses that the token is restricted to; null: not restricted. */
    businessIds: p.array().nullable(),
    createdAt: p.datetime(3),
    expiresAt: p.datetime(3).nullable(),
    revokedAt: p.datetime(3).nullable(),
    lastUsedAt: p.datetime(3).nullable(),
  },
  checks: [
    {
      name: 'internal_token_scopes',
      expression:
        "cardinality(scopes) > 0 and scopes <@ array['admin', 'payments:write', 'payments:reverse', 'splits:write', 'payouts:write', 'payouts:approve', 'webhooks:write', 'read', 'events:subscribe']",
    },
    {
      // An empty list would be mistaken for no restriction.
      name: 'internal_token_business_ids',
      expression: 'cardinality(business_ids) > 0 and cardinality(business_ids) <= 100',
    },
  ],
})

export type Token = InferEntity<typeof TokenEntity>
