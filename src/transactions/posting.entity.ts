import { defineEntity, p } from '@mikro-orm/core'
import { TransactionEntity } from './transaction.entity.ts'

/**
 * One movement of money between two ledger accounts. A row names both sides, so that the ledger
 * sums to zero by its shape; its key lets each kind of movement happen once a transaction.
 */
export const PostingEntity = defineEntity({
  name: 'Posting',
  tableName: 'ledger_posting',
  properties: {
    transaction: p.manyToOne(TransactionEntity).mapToPk().primary(),
    kind: p.text().primary(),
    businessId: p.text(),
    live: p.boolean(),
    debitAccount: p.text(),
    creditAccount: p.text(),
    amountMinor: p.bigint(),
    createdAt: p.datetime(3),
  },
  checks: [
    { name: 'ledger_posting_amount', expression: 'amount_minor > 0' },
    { name: 'ledger_posting_sides', expression: 'debit_account <> credit_account' },
  ],
})
