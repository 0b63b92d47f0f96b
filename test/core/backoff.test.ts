import fc from 'fast-check'
import { expect, test } from 'vitest'
import { backoffMs } from '../../src/core/backoff.ts'

const bounds = { minMs: 100, maxMs: 5_000 }

test('the wait doubles with each failure in a row, up to its maximum', () => {
  const waits = [1, 2, 3, 6, 7, 1_000_000].map((failures) => backoffMs(failures, bounds))
  expect(waits).toEqual([100, 200, 400, 3_200, 5_000, 5_000])
})

test('jitter scales the wait by 0.5 to 1.5', () => {
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100 }), random, (failures, drawn) => {
      const ratio = backoffMs(failures, bounds, () => drawn) / backoffMs(failures, bounds)
      expect(ratio).toBeCloseTo(0.5 + drawn)
    }),
  )
})
