import { defineEntity, p } from '@mikro-orm/core'

/**
 * What was recorded in one hour: a row for each business, mode and bank, and one with an empty business for all of
 * them together. Added up from the event log: see `follow-payments.ts`. Rows are updated in place, and no index
 * contains what changes, so pages have room for that.
 */
export const PaymentHourEntity = defineEntity({
  name: 'PaymentHour',
  tableName: 'payment_hour',
  properties: {
    /** Empty: all businesses. */
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    bank: p.text().primary(),
    hour: p.datetime(3).primary(),
    payments: p.bigint(),
    amountMinor: p.bigint().columnType('numeric(38,0)'),
    /** In the hour of the reversal. */
    reversals: p.bigint(),
    reversedMinor: p.bigint().columnType('numeric(38,0)'),
    /** When the latest of the payments was recorded; null if there are only reversals. */
    lastAt: p.datetime(3).nullable(),
  },
  // For retention.
  indexes: [{ properties: ['hour'] }],
})
