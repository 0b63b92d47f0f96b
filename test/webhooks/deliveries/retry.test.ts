import fc from 'fast-check'
import { expect, test } from 'vitest'
import { DAY_MS } from '../../../src/core/durations.ts'
import {
  parseRetryAfter,
  RETRY_SCHEDULE_MS,
  retryDelayMs,
} from '../../../src/webhooks/deliveries/retry.ts'

test('waits follow the schedule within 20 %', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: RETRY_SCHEDULE_MS.length }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (attempts, random) => {
        const scheduledMs = RETRY_SCHEDULE_MS[attempts - 1]!
        const delayMs = retryDelayMs(RETRY_SCHEDULE_MS, attempts, undefined, random)!
        expect(delayMs).toBeGreaterThanOrEqual(Math.floor(scheduledMs * 0.8))
        expect(delayMs).toBeLessThanOrEqual(Math.ceil(scheduledMs * 1.2))
      },
    ),
  )
  expect(RETRY_SCHEDULE_MS.map((ms) => ms / 1_000)).toEqual([
    5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400,
  ])
})

test('after the last attempt there is no retry', () => {
  expect(retryDelayMs(RETRY_SCHEDULE_MS, 10, undefined, 0.5)).toBeUndefined()
  expect(retryDelayMs(RETRY_SCHEDULE_MS, 10, 60_000, 0.5)).toBeUndefined()
  expect(retryDelayMs([], 1, undefined, 0.5)).toBeUndefined()
})

test('Retry-After extends a wait up to a day, and never shortens it', () => {
  expect(retryDelayMs([5_000], 1, 60_000, 0.5)).toBe(60_000)
  expect(retryDelayMs([5_000], 1, 1_000, 0.5)).toBe(5_000)
  expect(retryDelayMs([5_000], 1, 30 * DAY_MS, 0.5)).toBe(DAY_MS)
})

test.each([
  ['120', 120_000],
  ['0', 0],
  ['Fri, 20 Nov 2026 10:01:00 GMT', 60_000],
  ['Fri, 20 Nov 2026 09:59:00 GMT', undefined],
  ['Fri, 20 Nov 2026 10:00:00 GMT', 0],
  ['at Fri, 20 Nov 2026 10:01:00 GMT', undefined],
  ['Fri, 20 Nov 2026 11:01:00 GMT+0100', undefined],
  ['2026-11-20T10:01:00Z', undefined],
  ['-1', undefined],
  ['1.5', undefined],
  ['soon', undefined],
  ['9999999999', undefined],
  ['', undefined],
  [undefined, undefined],
])('Retry-After %s is %s ms', (text, ms) => {
  expect(parseRetryAfter(text, Date.UTC(2026, 10, 20, 10, 0, 0))).toBe(ms)
})
