import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { HOUR_MS } from '../../../src/core/durations.ts'
import { judge } from '../../../src/webhooks/endpoints/endpoint.ts'

const NOW_MS = Date.UTC(2026, 10, 20)
const ago = (hours: number | null) => (hours === null ? null : NOW_MS - hours * HOUR_MS)

describe('after a failed attempt, an endpoint', () => {
  test.each<[string, number | null, number | null, ReturnType<typeof judge>]>([
    ['that fails for the first time is kept', null, null, 'keep'],
    ['that has been failing for less than a day is kept', 23.999, null, 'keep'],
    ['that has been failing for a day gets a warning', 24, null, 'warn'],
    ['that has been failing for a week without a warning gets one first', 168, null, 'warn'],
    ['that was warned is kept until five days', 119.999, 90, 'keep'],
    ['that has been failing for five days is disabled', 120, 96, 'disable'],
    ['that was warned less than a day ago is kept', 168, 23.999, 'keep'],
    ['that was warned a day ago is disabled', 168, 24, 'disable'],
    ['that was warned but is healthy again is kept', null, 200, 'keep'],
  ])('%s', (_what, failingHours, warnedHours, verdict) => {
    const health = { failingSinceMs: ago(failingHours), warnedAtMs: ago(warnedHours) }
    expect(judge(health, NOW_MS)).toBe(verdict)
  })

  test('is never disabled without a warning, and never warned twice', () => {
    const hours = fc.option(fc.double({ min: 0, max: 1_000, noNaN: true }))
    fc.assert(
      fc.property(hours, hours, (failing, warned) => {
        const verdict = judge({ failingSinceMs: ago(failing), warnedAtMs: ago(warned) }, NOW_MS)
        expect(verdict).not.toBe(warned === null ? 'disable' : 'warn')
      }),
    )
  })
})
