import { fromBinary } from '@bufbuild/protobuf'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { Schedule, SettlementStatus } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  encodeSettlementEvent,
  toEntryMessage,
  toSettlementMessage,
  toTerms,
  toTermsMessage,
} from '../../src/settlement/message.ts'
import { BEFORE_ALL, percentDone } from '../../src/settlement/settlement.ts'
import type { Terms } from '../../src/settlement/terms.ts'
import { settlement } from './settlement-fixture.ts'

const amount = fc.bigInt({ min: 0n, max: 10n ** 15n })
const terms: fc.Arbitrary<Terms> = fc
  .tuple(
    fc.oneof(
      fc.constant({ schedule: 'INSTANT' as const, workingDays: 0, cutOffMinutes: 0 }),
      fc.record({
        schedule: fc.constant('DAILY' as const),
        workingDays: fc.constant(0),
        cutOffMinutes: fc.nat({ max: 1439 }),
      }),
      fc.record({
        schedule: fc.constant('WORKING_DAYS' as const),
        workingDays: fc.integer({ min: 1, max: 30 }),
        cutOffMinutes: fc.nat({ max: 1439 }),
      }),
    ),
    fc.record({
      feeFlatMinor: amount,
      feeBasisPoints: fc.nat({ max: 10_000 }),
      feeCapMinor: amount,
    }),
  )
  .map(([schedule, fee]) => ({ ...schedule, ...fee }))

describe('terms', () => {
  test('are read from a message as they were written to it', () => {
    fc.assert(
      fc.property(terms, (each) => {
        expect(toTerms(toTermsMessage(each))).toEqual(each)
      }),
    )
  })

  test.each([
    ['DAILY', 9 * 60 + 5, '09:05'],
    ['INSTANT', 0, ''],
  ] as const)('of %s show the cut-off in hours and minutes', (schedule, cutOffMinutes, cutOff) => {
    expect(toTermsMessage({ ...settlement, schedule, workingDays: 0, cutOffMinutes }).cutOff).toBe(
      cutOff,
    )
  })

  test('are not read without a schedule', () => {
    const message = toTermsMessage({
      ...settlement,
      schedule: 'DAILY',
      workingDays: 0,
      cutOffMinutes: 1,
    })
    expect(() => toTerms({ ...message, schedule: Schedule.UNSPECIFIED })).toThrow('a schedule')
  })

  test('without a cut-off mean midnight', () => {
    const message = toTermsMessage({
      ...settlement,
      schedule: 'DAILY',
      workingDays: 0,
      cutOffMinutes: 1,
    })
    expect(toTerms({ ...message, cutOff: '' }).cutOffMinutes).toBe(0)
  })
})

describe('a settlement', () => {
  const completedAtMs = Date.UTC(2026, 10, 21, 1)
  const completed = { ...settlement, status: 'COMPLETED', completedAtMs } as const

  test('shows what it pays out, and its progress', () => {
    const message = toSettlementMessage(settlement)
    expect(message).toMatchObject({
      id: 'set_1',
      businessId: 'biz_1',
      live: true,
      requestId: 'monday',
      status: SettlementStatus.RUNNING,
      forced: true,
      transactionCount: 7n,
      grossMinor: 10_000n,
      feesMinor: 150n,
      splitsMinor: 50n,
      netMinor: 9_800n,
      currency: 'NGN',
      percentDone: 50,
    })
    expect(timestampMs(message.cutOffAt!)).toBe(settlement.cutOffAtMs)
    expect(timestampMs(message.startedAt!)).toBe(settlement.startedAtMs)
    expect(message.completedAt).toBeUndefined()
  })

  test('shows when it was completed', () => {
    const message = toSettlementMessage(completed)
    expect(message).toMatchObject({ status: SettlementStatus.COMPLETED, percentDone: 100 })
    expect(timestampMs(message.completedAt!)).toBe(completedAtMs)
  })

  test('is the payload of its event', () => {
    const event = fromBinary(EventSchema, encodeSettlementEvent(completed, 'evt_1', completedAtMs))
    const { payload, ...rest } = event
    expect(rest).toMatchObject({
      id: 'evt_1',
      businessId: 'biz_1',
      kind: 'SETTLEMENT_COMPLETED',
      live: true,
    })
    expect(timestampMs(event.occurredAt!)).toBe(completedAtMs)
    expect(payload).toEqual({ case: 'settlement', value: toSettlementMessage(completed) })
  })
})

describe('an entry of a statement', () => {
  const entry = {
    sequence: 5n,
    bookedAtMs: 1_000,
    sessionId: 's-1',
    pendingMinor: -3n,
    availableMinor: 2n,
    feesMinor: 1n,
  }
  test.each([
    ['SETTLEMENT_COMPLETED', 'set_1', { transactionId: '', settlementId: 'set_1' }],
    ['PAYMENT_NOTIFICATION', 'txn_1', { transactionId: 'txn_1', settlementId: '' }],
  ])('of a %s names its subject once', (kind, subjectId, ids) => {
    const { bookedAtMs, ...rest } = entry
    const message = toEntryMessage({ ...entry, kind, subjectId })
    expect(message).toMatchObject({ ...rest, ...ids, kind })
    expect(timestampMs(message.bookedAt!)).toBe(bookedAtMs)
  })
})

const sequence = fc.bigInt({ min: 0n, max: 10n ** 12n })

describe('the progress of a settlement', () => {
  test('is the scanned part of its range in whole percent, rounded down, and 100 only when completed', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 12n), max: 10n ** 12n }),
        fc
          .tuple(sequence, sequence)
          .map(([a, b]) => (a < b ? ([a, b] as const) : ([b, a] as const))),
        (fromSequence, [done, whole]) => {
          const toSequence = fromSequence + whole
          const range = { fromSequence, toSequence, scannedSequence: fromSequence + done }
          const percent = percentDone({ ...settlement, status: 'RUNNING', ...range })
          if (whole === 0n) expect(percent).toBe(0)
          else if (done === whole) expect(percent).toBe(99)
          else expect(percent).toBe(Math.floor(Number((done * 1_000n) / whole) / 10))
          expect(percentDone({ ...settlement, status: 'COMPLETED', ...range })).toBe(100)
        },
      ),
    )
  })

  test.each<[string, bigint, bigint, bigint, number]>([
    ['the first settlement of a business, half-way', BEFORE_ALL, 1_000n, 500n, 50],
    ['the first settlement of a business without events', BEFORE_ALL, 0n, BEFORE_ALL, 0],
    ['all events of a business with negative sequence numbers', -20n, -10n, -10n, 99],
    // More than its range was scanned, as nothing was in it.
    ['a range without events', 10n, 10n, 11n, 0],
  ])('%s', (_what, fromSequence, toSequence, scannedSequence, percent) => {
    const range = { fromSequence, toSequence, scannedSequence }
    expect(percentDone({ ...settlement, status: 'RUNNING', ...range })).toBe(percent)
  })
})
