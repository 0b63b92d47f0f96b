import { timestampMs } from '@bufbuild/protobuf/wkt'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toEntryMessage, toTerms, toTermsMessage } from '../../src/settlement/message.ts'
import type { Terms } from '../../src/settlement/terms.ts'

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

const FREE = { feeFlatMinor: 0n, feeBasisPoints: 0, feeCapMinor: 0n }

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
    expect(toTermsMessage({ ...FREE, schedule, workingDays: 0, cutOffMinutes }).cutOff).toBe(cutOff)
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
