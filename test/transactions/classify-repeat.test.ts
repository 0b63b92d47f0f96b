import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AMOUNT_MINOR_MAX } from '../../src/core/money.ts'
import {
  canBePaidAt,
  classifyRepeat,
  type IncomingPayment,
  type Repeat,
  TRANSACTION_STATUSES,
  type TransactionStatus,
} from '../../src/transactions/transaction.ts'

/** The classification by recorded status and reported status, for the same amount and account. */
const TABLE: Record<TransactionStatus, Record<IncomingPayment['status'], Repeat>> = {
  PENDING: { PENDING: 'duplicate', SUCCESS: 'final', FAILED: 'final' },
  SUCCESS: { PENDING: 'duplicate', SUCCESS: 'duplicate', FAILED: 'conflict' },
  FAILED: { PENDING: 'duplicate', SUCCESS: 'conflict', FAILED: 'duplicate' },
  REVERSED: { PENDING: 'duplicate', SUCCESS: 'duplicate', FAILED: 'conflict' },
}

const amount = fc.bigInt({ min: 1n, max: AMOUNT_MINOR_MAX })
const number = fc.stringMatching(/^\d{10}$/)
const recordedStatus = fc.constantFrom(...TRANSACTION_STATUSES)
const incomingStatus = fc.constantFrom('PENDING', 'SUCCESS', 'FAILED') satisfies fc.Arbitrary<
  IncomingPayment['status']
>

const incoming = (facts: Pick<IncomingPayment, 'status' | 'amountMinor' | 'accountNumber'>) => ({
  bank: '9PSB' as const,
  sessionId: 's',
  paidAtMs: 0,
  payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
  narration: '',
  live: undefined,
  ...facts,
})

test('classifies a report with the same amount and account by the table', () => {
  fc.assert(
    fc.property(recordedStatus, incomingStatus, amount, number, (was, now, amountMinor, to) => {
      const recorded = { status: was, amountMinor, accountNumber: to }
      const repeat = classifyRepeat(
        recorded,
        incoming({ status: now, amountMinor, accountNumber: to }),
      )
      expect(repeat).toBe(TABLE[was][now])
    }),
  )
})

test.each([
  ['amount', true],
  ['account', false],
])('classifies another %s as a conflict, whatever the statuses', (_what, otherAmount) => {
  fc.assert(
    fc.property(
      recordedStatus,
      incomingStatus,
      fc.uniqueArray(amount, { minLength: 2, maxLength: 2 }),
      fc.uniqueArray(number, { minLength: 2, maxLength: 2 }),
      (was, now, amounts, numbers) => {
        const recorded = { status: was, amountMinor: amounts[0]!, accountNumber: numbers[0]! }
        const payment = incoming({
          status: now,
          amountMinor: amounts[otherAmount ? 1 : 0]!,
          accountNumber: numbers[otherAmount ? 0 : 1]!,
        })
        expect(classifyRepeat(recorded, payment)).toBe('conflict')
      },
    ),
  )
})

test.each([
  [0, false],
  [Date.UTC(2000, 0) - 1, false],
  [Date.UTC(2000, 0), true],
  [Date.UTC(2100, 0) - 1, true],
  [Date.UTC(2100, 0), false],
  [Number.NaN, false],
])('paid at %i ms: %s', (atMs, plausible) => {
  expect(canBePaidAt(atMs)).toBe(plausible)
})
