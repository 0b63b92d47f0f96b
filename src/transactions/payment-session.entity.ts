import { defineEntity, p } from '@mikro-orm/core'
import type { BankCode } from '../banks/bank.ts'

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
