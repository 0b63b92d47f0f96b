import { defineEntity, p } from '@mikro-orm/core'
import type { BankCode, NotificationOutcome } from '../banks/bank.ts'

/**
 * The state of a stored notification.
 *
 *     PENDING ──▶ PROCESSED       nothing more to do
 *        │            ▲
 *        │         resolved
 *        └──────▶ MANUAL_REVIEW   an operator has to decide: resolve it, or retry (PENDING again)
 *
 * The service retries a pending notification, also whenever the bank repeats it.
 */
export type NotificationState = 'PENDING' | 'PROCESSED' | 'MANUAL_REVIEW'

/** Banks' notifications as received. A repeated body is stored once. */
export const NotificationEntity = defineEntity({
  name: 'BankNotification',
  tableName: 'bank_notification',
  properties: {
    id: p.text().primary(),
    bank: p.text().$type<BankCode>(),
    /** SHA-256 of the body. */
    bodyDigest: p.blob(),
    receivedAt: p.datetime(3),
    /** Headers and body, encrypted. */
    rawEncrypted: p.blob(),
    /** The bank's key of the reported payment; empty if the notification reports none. */
    bankKey: p.text(),
    /** This column and the next two describe the reported payment; empty or 0 if it could not be read. */
    accountNumber: p.text().default(''),
    sessionId: p.text().default(''),
    amountMinor: p.bigint().defaultRaw('0'),
    state: p.text().$type<NotificationState>(),
    outcome: p.text().$type<NotificationOutcome>(),
    cause: p.text(),
    /** Whether it was ever refused: not confirmed by the bank, or held. */
    refused: p.boolean().default(false),
    /** How many times it was processed. */
    tries: p.integer(),
    /** When the service retries it. */
    nextTryAt: p.datetime(3).nullable(),
    /** When an operator ended its manual review. */
    resolvedAt: p.datetime(3).nullable(),
    note: p.text().default(''),
    /** True if reconciliation held a payment that the bank listed; the bank did not send it. */
    listed: p.boolean().default(false),
  },
  uniques: [{ properties: ['bank', 'bodyDigest'] }],
  indexes: [
    { properties: ['receivedAt'] },
    {
      name: 'bank_notification_payment_index',
      properties: ['bankKey', 'bank', 'id'],
      where: "bank_key <> ''",
    },
    { name: 'bank_notification_due_index', properties: ['nextTryAt'], where: "state = 'PENDING'" },
    {
      name: 'bank_notification_manual_review_index',
      properties: ['id'],
      where: "state = 'MANUAL_REVIEW'",
    },
  ],
  checks: [
    {
      name: 'bank_notification_state',
      expression: "state in ('PENDING', 'PROCESSED', 'MANUAL_REVIEW')",
    },
    {
      name: 'bank_notification_pending',
      expression: "(state = 'PENDING') = (next_try_at is not null)",
    },
  ],
})

/**
 * The session id under which each payment of a bank is recorded; it never changes. A bank may report
 * a payment with its session id and again without it, and both are the same payment.
 */
export const PaymentKeyEntity = defineEntity({
  name: 'BankPaymentKey',
  tableName: 'bank_payment_key',
  properties: {
    bank: p.text().$type<BankCode>().primary(),
    bankKey: p.text().primary(),
    sessionId: p.text(),
    createdAt: p.datetime(3),
  },
  uniques: [{ properties: ['sessionId', 'bank'] }],
})
