import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { AFTER_ALL, BEFORE_ALL, percentDone } from '../../src/settlement/settlement.ts'
import { settlement } from './settlement-fixture.ts'

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
    ['one of three events', 10n, 13n, 11n, 33],
    ['the first settlement of a business, half-way', BEFORE_ALL, 1_000n, 500n, 50],
    ['the first settlement of a business, not begun', BEFORE_ALL, 1_000n, BEFORE_ALL, 0],
    ['the first settlement of a business without events', BEFORE_ALL, 0n, BEFORE_ALL, 0],
    ['all events of a business with negative sequence numbers', -20n, -10n, -10n, 99],
    ['nothing', 10n, 10n, 10n, 0],
    // More than its range was scanned, as nothing was in it.
    ['a range without events', 10n, 10n, 11n, 0],
  ])('%s', (_what, fromSequence, toSequence, scannedSequence, percent) => {
    const range = { fromSequence, toSequence, scannedSequence }
    expect(percentDone({ ...settlement, status: 'RUNNING', ...range })).toBe(percent)
  })

  test('begins before every sequence number and ends after them', () => {
    expect(BEFORE_ALL).toBeLessThan(-(2n ** 60n))
    expect(AFTER_ALL).toBeGreaterThan(2n ** 60n)
  })
})
