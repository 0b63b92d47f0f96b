import { encodeTransactionEvent } from '../../src/transactions/message.ts'
import { SEEDED_BUSINESS, sessionIdOf } from './seed.ts'

/** The event of a payment as it is stored: readable and of a realistic size. */
export const PAYMENT_PAYLOAD = encodeTransactionEvent(
  'PAYMENT_NOTIFICATION',
  {
    id: `txn_${'0'.repeat(26)}`,
    bank: '9PSB',
    sessionId: sessionIdOf(1),
    amountMinor: 150_050n,
    status: 'SUCCESS',
    settled: false,
    paidAtMs: Date.UTC(2026, 10, 20),
    createdAtMs: Date.UTC(2026, 10, 20),
    narration: 'Transfer for order 1',
    recordedBy: 'notification',
    payer: {
      name: 'Chinedu Okafor',
      accountNumber: '0123456789',
      bankCode: '000013',
      bankName: 'GTBank Plc',
    },
    account: {
      businessId: SEEDED_BUSINESS,
      live: true,
      reference: `R-${'A'.repeat(20)}`,
      merchantReference: 'order-1',
      accountNumber: '0000000001',
      accountName: 'Business/Ada Obi',
      firstName: 'Ada',
      lastName: 'Obi',
      email: 'ada.obi1@example.com',
      createdAtMs: Date.UTC(2026, 10, 20),
    },
  },
  `evt_${'0'.repeat(26)}`,
  Date.UTC(2026, 10, 20),
)
