import { defineEntity, p } from '@mikro-orm/core'
import type { BankCode } from '../banks/bank.ts'
import { TransactionEntity } from './transaction.entity.ts'
import type { Resolution, TransactionStatus, UnmatchedPayment } from './transaction.ts'

/** A payment for an account number that is not open, stored for manual review. */
export const UnmatchedPaymentEntity = defineEntity({
  name: 'UnmatchedPayment',
  tableName: 'unmatched_payment',
  properties: {
    id: p.text().primary(),
    bank: p.text().$type<BankCode>(),
    accountNumber: p.text(),
    sessionId: p.text(),
    amountMinor: p.bigint(),
    status: p.text().$type<UnmatchedPayment['status']>(),
    paidAt: p.datetime(3),
    createdAt: p.datetime(3),
    payerName: p.text(),
    payerAccountNumber: p.text(),
    payerBankCode: p.text(),
    payerBankName: p.text(),
    narration: p.text(),
    resolution: p.text().$type<Resolution>().nullable(),
    resolvedAt: p.datetime(3).nullable(),
    note: p.text().default(''),
    /** The transaction that records it, if it was assigned. */
    transactionId: p.text().nullable(),
    // No relation: payouts are above transactions.
    /** The payout that returns it, while that is in progress or paid. */
    payoutId: p.text().collation('C').nullable(),
  },
  // A repeated report is stored once; a report with other details of the same session is a new row.
  uniques: [{ properties: ['sessionId', 'bank', 'accountNumber', 'amountMinor', 'status'] }],
  indexes: [
    {
      name: 'unmatched_payment_open_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "unmatched_payment" (${columns.id}) where resolution is null`,
    },
    {
      name: 'unmatched_payment_open_bank_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "unmatched_payment" (${columns.bank}, ${columns.id}) where resolution is null`,
    },
    {
      name: 'unmatched_payment_payout_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "unmatched_payment" (${columns.payoutId}) where payout_id is not null`,
    },
  ],
  checks: [
    { name: 'unmatched_payment_amount', expression: 'amount_minor > 0' },
    {
      name: 'unmatched_payment_resolution',
      expression: "resolution in ('ASSIGNED', 'RETURNED', 'RETURNING')",
    },
    {
      name: 'unmatched_payment_resolved',
      expression: '(resolution is null) = (resolved_at is null)',
    },
    {
      name: 'unmatched_payment_payout',
      expression:
        "case resolution when 'RETURNING' then payout_id is not null when 'RETURNED' then true else payout_id is null end",
    },
  ],
})

/** A report that contradicts the recorded payment of its session, stored for manual review. */
export const PaymentConflictEntity = defineEntity({
  name: 'PaymentConflict',
  tableName: 'payment_conflict',
  properties: {
    // A trigger checks the reference, here and below: foreign keys would keep partitions from being cut.
    transaction: p
      .manyToOne(TransactionEntity)
      .collation('C')
      .primary()
      .createForeignKeyConstraint(false),
    accountNumber: p.text().primary(),
    amountMinor: p.bigint().primary(),
    status: p.text().$type<TransactionStatus>().primary(),
    /** `cfl_…`, by which operators name it. */
    id: p.text(),
    createdAt: p.datetime(3),
    /** When an operator ended its manual review. */
    resolvedAt: p.datetime(3).nullable(),
    note: p.text().default(''),
  },
  uniques: [{ properties: ['id'] }],
  indexes: [
    {
      name: 'payment_conflict_open_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payment_conflict" (${columns.id}) where resolved_at is null`,
    },
  ],
})

export const ReversalEntity = defineEntity({
  name: 'Reversal',
  tableName: 'reversal',
  properties: {
    transaction: p
      .manyToOne(TransactionEntity)
      .collation('C')
      .primary()
      .createForeignKeyConstraint(false),
    reason: p.text(),
    reversedAt: p.datetime(3),
  },
})
