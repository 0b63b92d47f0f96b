import { defineEntity, p } from '@mikro-orm/core'
import { AccountEntity } from '../accounts/account.entity.ts'
import type { BankCode } from '../banks/bank.ts'
import type { RecordedBy, Resolution, TransactionStatus, UnmatchedPayment } from './transaction.ts'
import type { HoldState, Variance } from './variance/variance.ts'

/**
 * A recorded payment. Partitioned by month of `id`, and so by when it was recorded. It is settled if it has a posting
 * of the kind `settlement`.
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
    /** Whether another provider settled it; null: it was not imported. An imported payment has no postings and events. */
    importedSettled: p.boolean().nullable(),
  },
  indexes: [
    { properties: ['businessId', 'live', 'paidAt', 'id'] },
    { properties: ['account', 'paidAt', 'id'] },
    {
      name: 'transaction_unsuccessful_index',
      properties: ['businessId', 'live', 'status', 'paidAt', 'id'],
      where: "status <> 'SUCCESS'",
    },
    {
      name: 'transaction_account_unsuccessful_index',
      properties: ['account', 'status', 'paidAt', 'id'],
      where: "status <> 'SUCCESS'",
    },
    {
      // For the list of all businesses: there may be few payments in test mode among those in live mode.
      name: 'transaction_test_index',
      properties: ['id'],
      where: 'not live',
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

/** The transaction to which a row belongs, in its primary key. Triggers check the reference. */
const transactionKey = () =>
  p.manyToOne(TransactionEntity).collation('C').primary().createForeignKeyConstraint(false)

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
    transaction: transactionKey(),
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
      // For the shares that a business has of payments of other businesses.
      name: 'ledger_posting_share_index',
      properties: ['businessId', 'live', 'settlementId'],
      where: "starts_with(kind, 'share_')",
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

const HELD = "hold in ('HELD', 'RETURN_REQUESTED')"

/**
 * How a payment into a one-time account differs from the account's terms, and the state of its hold. A payment
 * into a permanent account, or whose money has not arrived, has no row.
 */
export const PaymentVarianceEntity = defineEntity({
  name: 'PaymentVariance',
  tableName: 'payment_variance',
  properties: {
    // A trigger checks the reference: a partition that a foreign key references cannot be detached.
    transaction: transactionKey(),
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
  uniques: [{ name: 'payment_variance_use_unique', properties: ['accountId'], where: 'is_use' }],
  indexes: [
    {
      name: 'payment_variance_held_business_index',
      properties: ['businessId', 'live', 'hold', 'transaction'],
      where: HELD,
    },
    {
      name: 'payment_variance_held_index',
      properties: ['live', 'hold', 'transaction'],
      where: HELD,
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
    // Not a relation: the domain of payouts depends on this domain.
    /** The payout that returns it, while that is in progress or paid. */
    payoutId: p.text().collation('C').nullable(),
  },
  // A repeated report is stored once; a report with other details of the same session is a new row.
  uniques: [{ properties: ['sessionId', 'bank', 'accountNumber', 'amountMinor', 'status'] }],
  indexes: [
    { name: 'unmatched_payment_open_index', properties: ['id'], where: 'resolution is null' },
    {
      name: 'unmatched_payment_open_bank_index',
      properties: ['bank', 'id'],
      where: 'resolution is null',
    },
    {
      name: 'unmatched_payment_payout_index',
      properties: ['payoutId'],
      where: 'payout_id is not null',
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
    // Triggers check this reference and the next: a partition that a foreign key references cannot be detached.
    transaction: transactionKey(),
    accountNumber: p.text().primary(),
    amountMinor: p.bigint().primary(),
    status: p.text().$type<TransactionStatus>().primary(),
    /** `cfl_…`, the id that operators use. */
    id: p.text(),
    createdAt: p.datetime(3),
    /** When an operator ended its manual review. */
    resolvedAt: p.datetime(3).nullable(),
    note: p.text().default(''),
  },
  uniques: [{ properties: ['id'] }],
  indexes: [
    { name: 'payment_conflict_open_index', properties: ['id'], where: 'resolved_at is null' },
  ],
})

export const ReversalEntity = defineEntity({
  name: 'Reversal',
  tableName: 'reversal',
  properties: {
    transaction: transactionKey(),
    reason: p.text(),
    reversedAt: p.datetime(3),
  },
})
