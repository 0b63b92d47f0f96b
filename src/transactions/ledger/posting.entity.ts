import { defineEntity, p } from '@mikro-orm/core'
import { TransactionEntity } from '../transaction.entity.ts'

/** The legal postings: see ledger.ts. */
const MOVEMENTS = `case kind
    when 'payment' then credit_account in ('pending', 'held') and starts_with(debit_account, 'clearing:') and settlement_id is null
    when 'acceptance' then debit_account = 'held' and credit_account = 'pending' and settlement_id is null
    when 'settlement' then debit_account = 'pending' and credit_account = 'available' and settlement_id is not null
    when 'fee' then debit_account = 'available' and credit_account = 'fees' and settlement_id is not null
    when 'fee_reversal' then debit_account = 'fees' and credit_account = 'available' and settlement_id is null
    when 'settlement_reversal' then debit_account = 'available' and credit_account = 'pending' and settlement_id is null
    when 'acceptance_reversal' then debit_account = 'pending' and credit_account = 'held' and settlement_id is null
    when 'payment_reversal' then debit_account in ('pending', 'held') and starts_with(credit_account, 'clearing:') and settlement_id is null
    when 'split' then debit_account = 'available' and credit_account = 'splits' and settlement_id is not null
    when 'split_reversal' then debit_account = 'splits' and credit_account = 'available' and settlement_id is null
    else case when kind ~ '^share_[1-5]$' then debit_account = 'splits' and credit_account = 'available' and settlement_id is not null
      else kind ~ '^share_[1-5]_reversal$' and debit_account = 'available' and credit_account = 'splits' and settlement_id is null
      end end`

/**
 * One movement of money between two ledger accounts. A row names both sides, so the ledger always sums to zero. The
 * primary key allows one posting of each kind for a transaction. It belongs to the business of the transaction; a share
 * belongs to its recipient.
 */
export const PostingEntity = defineEntity({
  name: 'Posting',
  tableName: 'ledger_posting',
  properties: {
    // A trigger checks the reference once for each statement, which is cheaper than for each row.
    transaction: p
      .manyToOne(TransactionEntity)
      .collation('C')
      .primary()
      .createForeignKeyConstraint(false),
    kind: p.text().primary(),
    businessId: p.text(),
    live: p.boolean(),
    debitAccount: p.text(),
    creditAccount: p.text(),
    amountMinor: p.bigint(),
    createdAt: p.datetime(3),
    /** The settlement that the posting belongs to. */
    settlementId: p.text().nullable(),
  },
  indexes: [
    {
      // For the shares that a business has of others' payments.
      name: 'ledger_posting_share_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "ledger_posting" (${columns.businessId}, ${columns.live}, ${columns.settlementId}) where starts_with(kind, 'share_')`,
    },
  ],
  checks: [
    // A settlement of zero: all of the payment was refunded before.
    {
      name: 'ledger_posting_amount',
      expression: "amount_minor > 0 or (kind = 'settlement' and amount_minor = 0)",
    },
    { name: 'ledger_posting_sides', expression: 'debit_account <> credit_account' },
    { name: 'ledger_posting_movement', expression: MOVEMENTS },
  ],
})
