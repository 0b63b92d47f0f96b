import { defineEntity, p } from '@mikro-orm/core'
import { AccountEntity } from '../accounts/account.entity.ts'
import type { BankCode } from '../banks/bank.ts'
import type { RecordedBy, TransactionStatus } from './transaction.ts'

/**
 * A recorded payment. Partitioned by month of `id`, and so by when it was recorded. It is settled if it has a
 * posting of that kind.
 */
export const TransactionEntity = defineEntity({
  name: 'Transaction',
  tableName: 'transaction',
  properties: {
    id: p.text().collation('C').primary(),
    businessId: p.text(),
    live: p.boolean(),
    // A trigger checks the reference once for each statement, which is cheaper than for each row.
    account: p.manyToOne(AccountEntity).createForeignKeyConstraint(false),
    bank: p.text().$type<BankCode>(),
    sessionId: p.text(),
    amountMinor: p.bigint(),
    status: p.text().$type<TransactionStatus>(),
    paidAt: p.datetime(3),
    createdAt: p.datetime(3),
    payerName: p.text(),
    payerAccountNumber: p.text(),
    payerBankCode: p.text(),
    payerBankName: p.text(),
    narration: p.text(),
    recordedBy: p.text().$type<RecordedBy>(),
    /** The W3C traceparent of the report. */
    traceparent: p.text().nullable(),
    /** Whether another provider settled it; null: it was not imported. An imported one has no postings and events. */
    importedSettled: p.boolean().nullable(),
  },
  indexes: [
    { properties: ['businessId', 'live', 'paidAt', 'id'] },
    { properties: ['account', 'paidAt', 'id'] },
    {
      name: 'transaction_unsuccessful_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "transaction" (${columns.businessId}, ${columns.live}, ${columns.status}, ${columns.paidAt}, ${columns.id}) where status <> 'SUCCESS'`,
    },
    {
      name: 'transaction_account_unsuccessful_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "transaction" (${columns.account}, ${columns.status}, ${columns.paidAt}, ${columns.id}) where status <> 'SUCCESS'`,
    },
    {
      // For the list of all businesses: there may be few payments in test mode among those in live mode.
      name: 'transaction_test_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "transaction" (${columns.id}) where not live`,
    },
  ],
  checks: [
    { name: 'transaction_amount', expression: 'amount_minor > 0' },
    {
      name: 'transaction_status',
      expression: "status in ('PENDING', 'SUCCESS', 'FAILED', 'REVERSED')",
    },
  ],
})

/**
 * The transaction that records a session, in a table of its own: `transaction` is partitioned by time, so a
 * unique index of it would have to contain the time. Recording a payment inserts here first.
 */
export const PaymentSessionEntity = defineEntity({
  name: 'PaymentSession',
  tableName: 'payment_session',
  properties: {
    // First in the key: the same index prevents duplicates and finds a transaction by its session.
    sessionId: p.text().primary(),
    bank: p.text().$type<BankCode>().primary(),
    live: p.boolean().primary(),
    transactionId: p.text().collation('C'),
  },
})
