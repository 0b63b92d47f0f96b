import { defineEntity, p } from '@mikro-orm/core'

/**
 * A request of a business with one of its secret keys. Written in batches after the response, and kept for days: see
 * `request-log.ts`. It refers to no other table, so that a batch is cheap and never refused.
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
  // One of these lists a business in one mode, and finds what is too much of it.
  indexes: [{ properties: ['businessId', 'live', 'failed', 'id'] }],
})
