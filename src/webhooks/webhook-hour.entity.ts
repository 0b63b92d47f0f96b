import { defineEntity, p } from '@mikro-orm/core'

/**
 * The attempts that ended in one hour: a row for each business and mode, and one with an empty business for all of
 * them together. Instances add what they counted every few seconds: see `count-attempts.ts`.
 */
export const WebhookHourEntity = defineEntity({
  name: 'WebhookHour',
  tableName: 'webhook_hour',
  properties: {
    /** Empty: all businesses. */
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    hour: p.datetime(3).primary(),
    attempts: p.bigint(),
    delivered: p.bigint(),
    /** Deliveries whose last attempt failed. */
    failed: p.bigint(),
    /** How many deliveries took how long: see `bucketOf`. */
    delays: p.array((text) => Number(text)).columnType('int[]'),
  },
  // For retention.
  indexes: [{ properties: ['hour'] }],
})
