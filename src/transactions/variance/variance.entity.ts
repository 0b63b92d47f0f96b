import { defineEntity, p } from '@mikro-orm/core'
import { TransactionEntity } from '../transaction.entity.ts'
import type { HoldState, Variance } from './variance.ts'

const HELD = "hold in ('HELD', 'RETURN_REQUESTED')"

/**
 * How a payment into a one-time account differs from the account's terms, and what became of it. A payment
 * into a permanent account, or whose money has not arrived, has no row.
 */
export const PaymentVarianceEntity = defineEntity({
  name: 'PaymentVariance',
  tableName: 'payment_variance',
  properties: {
    // A trigger checks the reference: a foreign key would keep partitions from being cut.
    transaction: p
      .manyToOne(TransactionEntity)
      .collation('C')
      .primary()
      .createForeignKeyConstraint(false),
    businessId: p.text(),
    live: p.boolean(),
    accountId: p.text(),
    variance: p.text().$type<Variance>(),
    /** Null if the variance is NONE. */
    hold: p.text().$type<HoldState>().nullable(),
    /** Whether the payment used up its single-use account: at most one does. */
    isUse: p.boolean(),
    /** When it was accepted, or its return was requested or completed. */
    decidedAt: p.datetime(3).nullable(),
    returnReason: p.text().default(''),
  },
  indexes: [
    {
      name: 'payment_variance_held_business_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payment_variance" (${columns.businessId}, ${columns.live}, ${columns.hold}, ${columns.transaction}) where ${HELD}`,
    },
    {
      name: 'payment_variance_held_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payment_variance" (${columns.live}, ${columns.hold}, ${columns.transaction}) where ${HELD}`,
    },
    {
      name: 'payment_variance_use_unique',
      expression: (columns, _table, indexName) =>
        `create unique index ${indexName} on "payment_variance" (${columns.accountId}) where is_use`,
    },
  ],
  checks: [
    {
      name: 'payment_variance_variance',
      expression:
        "variance in ('NONE', 'UNDERPAID', 'OVERPAID', 'EXPIRED', 'REPEATED', 'PAYER_NOT_ALLOWED')",
    },
    {
      name: 'payment_variance_hold',
      expression:
        "((variance = 'NONE') = (hold is null)) and hold in ('HELD', 'ACCEPTED', 'RETURN_REQUESTED', 'RETURNED')",
    },
    {
      name: 'payment_variance_decided',
      expression: "(decided_at is null) = (hold is null or hold = 'HELD')",
    },
    { name: 'payment_variance_use', expression: "not is_use or hold is null or hold = 'ACCEPTED'" },
  ],
})
