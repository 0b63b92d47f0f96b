import { defineEntity, p } from '@mikro-orm/core'
import { TransactionEntity } from './transaction.entity.ts'

/** A payment that no open account could be found for, kept for an operator. */
export const UnmatchedPaymentEntity = defineEntity({
  name: 'UnmatchedPayment',
  tableName: 'unmatched_payment',
  properties: {
    id: p.text().primary(),
    bank: p.text(),
    accountNumber: p.text(),
    sessionId: p.text(),
    amountMinor: p.bigint(),
    status: p.text(),
    paidAt: p.datetime(3),
    createdAt: p.datetime(3),
    payerName: p.text(),
    payerAccountNumber: p.text(),
    payerBankCode: p.text(),
    payerBankName: p.text(),
    narration: p.text(),
  },
  // A repeat is kept once; what says something else of the same session is kept beside it.
  uniques: [{ properties: ['sessionId', 'bank', 'accountNumber', 'amountMinor', 'status'] }],
  checks: [{ name: 'unmatched_payment_amount', expression: 'amount_minor > 0' }],
})

/** A payment that contradicts the recorded one of the same session, kept for an operator. */
export const PaymentConflictEntity = defineEntity({
  name: 'PaymentConflict',
  tableName: 'payment_conflict',
  properties: {
    transaction: p.manyToOne(TransactionEntity).mapToPk().primary(),
    accountNumber: p.text().primary(),
    amountMinor: p.bigint().primary(),
    status: p.text().primary(),
    createdAt: p.datetime(3),
  },
})
