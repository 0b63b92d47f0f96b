import { defineEntity, p } from '@mikro-orm/core'
import type { ReviewKind } from './review-items.ts'

/**
 * The assignee and note of an item of the review. It has no foreign keys: items are rows of several tables, and a note must
 * never block changes to them.
 */
export const ReviewNoteEntity = defineEntity({
  name: 'ReviewNote',
  tableName: 'review_note',
  properties: {
    kind: p.text().$type<ReviewKind>().primary(),
    itemId: p.text().primary(),
    live: p.boolean().primary(),
    /** Empty: the item is unassigned. */
    assignee: p.text(),
    /** Empty: none. */
    note: p.text(),
    notedAt: p.datetime(3),
    /** The name of the caller who last changed the assignee or note. */
    notedBy: p.text(),
  },
})

/**
 * The payments that were recorded in one hour, added up from the event log. There is a row for each business, mode and bank,
 * and a row with an empty business id for all businesses together. Updates change no indexed column, so the table has a
 * fill factor that leaves room for HOT updates.
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
    /** A reversal counts in the hour in which it was made. */
    reversals: p.bigint(),
    reversedMinor: p.bigint().columnType('numeric(38,0)'),
    /** When the latest of the payments was recorded; null if there are only reversals. */
    lastAt: p.datetime(3).nullable(),
  },
  // For retention.
  indexes: [{ properties: ['hour'] }],
})
