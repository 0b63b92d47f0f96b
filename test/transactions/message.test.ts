import { create, fromBinary } from '@bufbuild/protobuf'
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { Resolution } from '../../gen/inflow/reconciliation/v1/unmatched_payment_pb.ts'
import { RecorderKind, TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { RecordPaymentRequestSchema } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { encodeSettlementEvent } from '../../src/settlement/message.ts'
import {
  decodeTransactionEvent,
  encodeTransactionEvent,
  encodeUnmatchedEvent,
  toRecorderMessage,
  toStatus,
  toTokenPayment,
  toTransactionMessage,
  toUnmatchedMessage,
} from '../../src/transactions/message.ts'
import type { StoredUnmatched } from '../../src/transactions/transaction.ts'
import {
  canBePaidAt,
  type RecordedBy,
  type StoredTransaction,
  TRANSACTION_STATUSES,
} from '../../src/transactions/transaction.ts'
import { varianceOf } from '../../src/transactions/variance/variance.ts'
import { settlement } from '../settlement/settlement-fixture.ts'

const payer = { name: 'Ngozi', accountNumber: '0123456789', bankCode: '000013', bankName: 'GTBank' }
const paidAtMs = Date.UTC(2026, 10, 20, 9, 30, 0, 123)

const transaction: StoredTransaction = {
  id: 'txn_1',
  account: {
    businessId: 'biz_1',
    live: true,
    reference: 'ref_1',
    merchantReference: 'order-1',
    accountNumber: '5010000001',
    accountName: 'Shop/Ada Obi',
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    createdAtMs: 5_000,
  },
  bank: 'PROVIDUS',
  sessionId: 's-1',
  amountMinor: 150_050n,
  status: 'SUCCESS',
  settled: true,
  paidAtMs,
  createdAtMs: paidAtMs + 1_000,
  payer,
  narration: 'rent',
  recordedBy: 'notification',
}

describe('a transaction', () => {
  test('shows its facts, its account and its payer', () => {
    const message = toTransactionMessage(transaction)
    expect(message).toMatchObject({
      id: 'txn_1',
      businessId: 'biz_1',
      live: true,
      accountReference: 'ref_1',
      merchantReference: 'order-1',
      accountNumber: '5010000001',
      accountName: 'Shop/Ada Obi',
      customerName: 'Ada Obi',
      customerEmail: 'ada@example.com',
      bank: Bank.BANK_PROVIDUS,
      sessionId: 's-1',
      amountMinor: 150_050n,
      currency: 'NGN',
      status: TransactionStatus.SUCCESS,
      settled: true,
      payer,
      narration: 'rent',
    })
    expect(timestampMs(message.paidAt!)).toBe(paidAtMs)
    expect(timestampMs(message.accountCreatedAt!)).toBe(5_000)
    expect([message.settlesAt, message.reversal, message.recorder]).toEqual(
      Array(3).fill(undefined),
    )
  })

  test('shows when it is due, who recorded it and its reversal, where they are known', () => {
    const recorder = toRecorderMessage('token:tok_1', true)
    const reversal = { reason: 'sent twice', reversedAtMs: 7_000 }
    const message = toTransactionMessage({ ...transaction, reversal }, { settlesAtMs: 0, recorder })
    expect(timestampMs(message.settlesAt!)).toBe(0)
    expect(message.recorder).toBe(recorder)
    expect(message.reversal).toMatchObject({ reason: 'sent twice' })
    expect(timestampMs(message.reversal!.reversedAt!)).toBe(7_000)
  })

  test.each<[RecordedBy, RecorderKind, string]>([
    ['notification', RecorderKind.NOTIFICATION, ''],
    ['reconciliation', RecorderKind.RECONCILIATION, ''],
    ['token:tok_1', RecorderKind.TOKEN, 'tok_1'],
    ['token:spiffe://shop/a:b', RecorderKind.TOKEN, 'spiffe://shop/a:b'],
    ['statement:tok_1', RecorderKind.STATEMENT, 'tok_1'],
    ['sandbox:tok_1', RecorderKind.SANDBOX, 'tok_1'],
    ['assignment:TOK_2', RecorderKind.ASSIGNMENT, 'TOK_2'],
  ])('recorded by %s names the credential only to those who may see it', (recordedBy, kind, id) => {
    expect(toRecorderMessage(recordedBy, true)).toMatchObject({ kind, id })
    expect(toRecorderMessage(recordedBy, false)).toMatchObject({ kind, id: '' })
  })

  test('has each status of the contract, and none that is unspecified', () => {
    for (const status of TRANSACTION_STATUSES) {
      expect(toStatus(TransactionStatus[status])).toBe(status)
    }
    expect(toStatus(TransactionStatus.UNSPECIFIED)).toBeUndefined()
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
})

describe('the event of a transaction', () => {
  const payload = encodeTransactionEvent('PAYMENT_REVERSED', transaction, 'evt_1', 9_000)

  test('states the business, the mode and the transaction, and has no place in the log yet', () => {
    const event = fromBinary(EventSchema, payload)
    expect(event).toMatchObject({
      id: 'evt_1',
      businessId: 'biz_1',
      kind: 'PAYMENT_REVERSED',
      live: true,
      cursor: '',
      position: 0n,
      businessSequence: 0n,
      epoch: 0,
    })
    expect(timestampMs(event.occurredAt!)).toBe(9_000)
    expect(event.payload).toMatchObject({ case: 'transaction', value: { id: 'txn_1', payer } })
  })

  test('is read back for verification', () => {
    expect(decodeTransactionEvent(payload)).toEqual({
      eventId: 'evt_1',
      kind: 'PAYMENT_REVERSED',
      businessId: 'biz_1',
      transactionId: 'txn_1',
      sessionId: 's-1',
      amountMinor: 150_050n,
    })
  })

  test('is not read from the event of something else, or from other bytes', () => {
    expect(decodeTransactionEvent(encodeSettlementEvent(settlement, 'evt_2', 0))).toBeUndefined()
    expect(decodeTransactionEvent(Buffer.from('no event'))).toBeUndefined()
  })
})

describe('an unmatched payment', () => {
  const unmatched: StoredUnmatched = {
    id: 'unm_1',
    bank: 'SAFEHAVEN',
    accountNumber: '0000000000',
    sessionId: 's-2',
    amountMinor: 5n,
    status: 'PENDING',
    paidAtMs,
    payer,
    narration: 'gift',
    live: undefined,
    createdAtMs: 8_000,
    resolution: undefined,
    resolvedAtMs: undefined,
    note: '',
    transactionId: undefined,
    payoutId: undefined,
  }

  test('shows what the bank reported, and no decision while there is none', () => {
    const message = toUnmatchedMessage(unmatched)
    expect(message).toMatchObject({
      id: 'unm_1',
      bank: Bank.BANK_SAFEHAVEN,
      accountNumber: '0000000000',
      sessionId: 's-2',
      amountMinor: 5n,
      currency: 'NGN',
      status: TransactionStatus.PENDING,
      payer,
      narration: 'gift',
      note: '',
      transactionId: '',
      resolution: Resolution.UNSPECIFIED,
    })
    expect(timestampMs(message.paidAt!)).toBe(paidAtMs)
    expect(timestampMs(message.createdAt!)).toBe(8_000)
    expect(message.resolvedAt).toBeUndefined()
  })

  test.each([
    ['ASSIGNED', 'txn_9'],
    ['RETURNED', undefined],
  ] as const)('shows that it was %s, when and why', (resolution, transactionId) => {
    const decided = { resolution, resolvedAtMs: 0, note: 'called', transactionId }
    const message = toUnmatchedMessage({ ...unmatched, ...decided })
    expect(message).toMatchObject({
      resolution: Resolution[resolution],
      note: 'called',
      transactionId: transactionId ?? '',
    })
    expect(timestampMs(message.resolvedAt!)).toBe(0)
  })

  test('has an event of no business', () => {
    const event = fromBinary(EventSchema, encodeUnmatchedEvent(unmatched, 'evt_3'))
    expect(event).toMatchObject({
      ...{ id: 'evt_3', businessId: '', kind: 'PAYMENT_UNMATCHED' },
      payload: { case: 'unmatchedPayment', value: { id: 'unm_1' } },
    })
    expect(timestampMs(event.occurredAt!)).toBe(8_000)
  })
})

describe('a payment that an internal service reports', () => {
  const facts = { accountNumber: '5010000001', sessionId: 's-3', amountMinor: 9n }
  const request = { bank: Bank.BANK_9PSB, ...facts }

  test('is SUCCESS, paid now by an unknown payer, unless it states otherwise', () => {
    const payment = toTokenPayment(create(RecordPaymentRequestSchema, request), 77, 'token:tok_1')
    expect(payment).toEqual({
      bank: '9PSB',
      ...facts,
      status: 'SUCCESS',
      paidAtMs: 77,
      payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
      narration: '',
      live: undefined,
      recordedBy: 'token:tok_1',
      bankKey: '',
    })
  })

  test('is what it states', () => {
    const stated = { status: TransactionStatus.FAILED, payer, narration: 'n', bankKey: 'k' }
    const message = { ...request, ...stated, paidAt: timestampFromMs(paidAtMs) }
    const payment = toTokenPayment(create(RecordPaymentRequestSchema, message), 77, 'token:tok_1')
    expect(payment).toMatchObject({
      status: 'FAILED',
      paidAtMs,
      payer,
      narration: 'n',
      bankKey: 'k',
    })
  })

  test('has what its bank and payer wrote, without invisible characters', () => {
    const wrote = { name: 'ADA\u202e \u200bOBI', bankName: 'GT\u00adBank' }
    const message = { ...request, payer: wrote, narration: 'rent\nof\u2066 May' }
    const payment = toTokenPayment(create(RecordPaymentRequestSchema, message), 77, 'token:tok_1')
    const cleaned = { name: 'ADA OBI', bankName: 'GTBank' }
    expect(payment).toMatchObject({ payer: cleaned, narration: 'rent of May' })
  })
})

test('a payment is late at its expiry and not a nanosecond before, though times are kept in milliseconds', () => {
  const terms = { expectedAmountMinor: undefined, amountRule: 'ANY', singleUse: false } as const
  const expiries = fc.integer({ min: Date.UTC(2000, 0), max: Date.UTC(2099, 0) })
  const offsets = fc.oneof(
    fc.bigInt({ min: -3n, max: 3n }),
    fc.bigInt({ min: -2_000_000n, max: 2_000_000n }),
  )
  fc.assert(
    fc.property(expiries, offsets, (expiresAtMs, offsetNs) => {
      const atNs = BigInt(expiresAtMs) * 1_000_000n + offsetNs
      const paidAt = { seconds: atNs / 1_000_000_000n, nanos: Number(atNs % 1_000_000_000n) }
      const request = create(RecordPaymentRequestSchema, { bank: Bank.BANK_9PSB, paidAt })
      const reported = toTokenPayment(request, 0, 'notification')
      const variance = varianceOf({ ...terms, expiresAtMs, allowedPayers: [] }, false, reported)
      expect(variance).toBe(offsetNs < 0n ? 'NONE' : 'EXPIRED')
    }),
  )
})
