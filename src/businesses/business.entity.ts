import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { KeyScope } from '../auth/caller.ts'

export const BusinessEntity = defineEntity({
  name: 'Business',
  tableName: 'business',
  properties: {
    id: p.text().primary(),
    name: p.text(),
    alias: p.text(),
    /** The sustained requests per second of each key; null: the default. */
    rateLimitPerSecond: p.integer().nullable(),
    /** The most requests at once after a pause; null: two seconds of the sustained rate. */
    rateLimitBurst: p.integer().nullable(),
    createdAt: p.datetime(3),
  },
  indexes: [
    // For searches by prefix, in upper or lower case.
    {
      name: 'business_name_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "business" (lower(${columns.name}) collate "C", ${columns.id})`,
    },
    {
      name: 'business_alias_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "business" (lower(${columns.alias}) collate "C", ${columns.id})`,
    },
  ],
  checks: [
    {
      name: 'business_rate_limit_check',
      expression:
        'case when rate_limit_per_second is null then rate_limit_burst is null else rate_limit_per_second > 0 and (rate_limit_burst is null or rate_limit_burst > 0 and rate_limit_burst <= 60 * rate_limit_per_second) end',
    },
  ],
})

export type Business = InferEntity<typeof BusinessEntity>

/**
 * A request of a business with one of its secret keys. It refers to no other table, so that a batch is cheap and never
 * refused.
 */
export const ApiRequestEntity = defineEntity({
  name: 'ApiRequest',
  tableName: 'api_request',
  properties: {
    /** Begins with the time of arrival. */
    id: p.text().primary(),
    businessId: p.text(),
    live: p.boolean(),
    failed: p.boolean(),
    keyId: p.text(),
    receivedAt: p.datetime(3),
    path: p.text(),
    protocol: p.text(),
    status: p.integer(),
    durationMs: p.integer(),
    requestId: p.text(),
    address: p.text(),
    /** Why the request failed. This column and the next three are empty if it succeeded. */
    code: p.text(),
    error: p.text(),
    /** The fields at fault: `[{field, message}]`. */
    faults: p.text(),
    /** Without secrets and identity numbers. */
    body: p.text(),
    /** The bytes of error, faults and body. */
    bytes: p.integer(),
  },
  // Lists the requests of a business in one mode, and finds the excess of each group.
  indexes: [{ properties: ['businessId', 'live', 'failed', 'id'] }],
})

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
    /** The scopes of the key; empty: the key may call the methods that are open to keys without scopes. */
    scopes: p.array().$type<KeyScope[]>().default([]),
    /** Up to half a minute late, because it is written in the background. */
    lastUsedAt: p.datetime(3).nullable(),
    /** Whether another provider made the key. Its text contains no id, so the key is found by its hash. */
    imported: p.boolean().default(false),
  },
  uniques: [{ name: 'api_key_imported_index', properties: ['secretHash'], where: 'imported' }],
  indexes: [{ properties: ['business', 'id'] }],
  checks: [
    {
      name: 'api_key_scopes',
      expression:
        "scopes <@ array['accounts:read', 'accounts:create', 'accounts:write', 'payments:read', 'payments:decide', 'payments:requery', 'payments:simulate', 'events:read', 'balances:read', 'webhooks:read', 'webhooks:write', 'payouts']",
    },
  ],
})

export type Key = InferEntity<typeof KeyEntity>
