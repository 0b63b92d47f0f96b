import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BUCKETS, bucketOf, quantileMs } from '../../src/webhooks/count-attempts.ts'

const DAYS_21_MS = 21 * 86_400_000

test('a quantile is within a fifth of the exact one', () => {
  const delays = fc.array(fc.integer({ min: 1, max: DAYS_21_MS }), { minLength: 1, maxLength: 200 })
  fc.assert(
    fc.property(delays, fc.double({ min: 0.01, max: 1, noNaN: true }), (values, part) => {
      const counts = new Array<number>(BUCKETS).fill(0)
      for (const value of values) counts[bucketOf(value)]! += 1
      const sorted = [...values].sort((a, b) => a - b)
      const exact = sorted[Math.ceil(sorted.length * part) - 1]!
      const found = quantileMs(counts, part)
      expect(Math.abs(found - exact)).toBeLessThanOrEqual(0.5 + exact * 0.19)
    }),
  )
})

test('nothing counted has no delay, and no delay is too long to count', () => {
  expect(quantileMs(new Array(BUCKETS).fill(0), 0.95)).toBe(0)
  expect(bucketOf(-5)).toBe(0)
  expect(bucketOf(0)).toBe(0)
  expect(bucketOf(Number.MAX_SAFE_INTEGER)).toBe(BUCKETS - 1)
})
