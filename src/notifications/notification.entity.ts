import { defineEntity, p } from '@mikro-orm/core'

/** What banks told us, as it came. The same body is kept once. */
export const NotificationEntity = defineEntity({
  name: 'BankNotification',
  tableName: 'bank_notification',
  properties: {
    id: p.text().primary(),
    bank: p.text(),
    /** SHA-256 of the body. */
    bodyDigest: p.blob(),
    receivedAt: p.datetime(3),
    /** Headers and body, encrypted. */
    sealed: p.blob(),
    /** The bank's key of the payment it tells of; empty when it tells of none. */
    bankKey: p.text(),
    state: p.text(),
    outcome: p.text(),
    cause: p.text(),
    /** How often it was looked at. */
    tries: p.integer(),
    /** When the service looks at it again by itself. */
    nextTryAt: p.datetime(3).nullable(),
  },
  uniques: [{ properties: ['bank', 'bodyDigest'] }],
  indexes: [
    { properties: ['receivedAt'] },
    {
      name: 'bank_notification_due_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "bank_notification" (${columns.nextTryAt}) where state = 'OPEN'`,
    },
    {
      name: 'bank_notification_held_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "bank_notification" (${columns.id}) where state = 'HELD'`,
    },
  ],
  checks: [
    { name: 'bank_notification_state', expression: "state in ('OPEN', 'DONE', 'HELD')" },
    {
      name: 'bank_notification_open',
      expression: "(state = 'OPEN') = (next_try_at is not null)",
    },
  ],
})

/**
 * Under which session each payment of a bank is recorded, for ever: a bank may tell of a payment
 * with its session id and again without, and both are the same payment.
 */
export const PaymentKeyEntity = defineEntity({
  name: 'BankPaymentKey',
  tableName: 'bank_payment_key',
  properties: {
    bank: p.text().primary(),
    bankKey: p.text().primary(),
    sessionId: p.text(),
    createdAt: p.datetime(3),
  },
  uniques: [{ properties: ['sessionId', 'bank'] }],
})
