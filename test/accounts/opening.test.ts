import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ATTEMPTS_MAX, pendingOpening } from '../../src/accounts/openings/opening.ts'
import type { AccountResult } from '../../src/banks/bank.ts'

type NotOpened = Extract<AccountResult, { kind: 'unavailable' | 'unknown' }>

const result = fc.oneof(
  fc.record({ kind: fc.constant('unavailable' as const), cause: fc.string() }),
  fc.record({
    kind: fc.constant('unknown' as const),
    cause: fc.string(),
    next: fc.constantFrom('retry' as const, 'requery' as const, 'manual review' as const),
  }),
)

const attempt = fc.integer({ min: 1, max: 2 * ATTEMPTS_MAX })

describe('an attempt that did not open the account', () => {
  test('is retried by the service only if the result is unclear and the bank allows it', () => {
    fc.assert(
      fc.property(result, attempt, fc.nat(), (given: NotOpened, attempts, nowMs) => {
        const { state, nextTryAtMs } = pendingOpening(given, attempts, nowMs)
        expect(nextTryAtMs === undefined).toBe(state === 'RETRYABLE' || state === 'MANUAL_REVIEW')
        expect(state === 'RETRYABLE').toBe(given.kind === 'unavailable')
        if (given.kind === 'unknown' && given.next === 'manual review')
          expect(state).toBe('MANUAL_REVIEW')
        if (given.kind === 'unknown' && attempts >= ATTEMPTS_MAX)
          expect(state).toBe('MANUAL_REVIEW')
      }),
    )
  })

  test('waits longer after each attempt, up to half an hour', () => {
    const repeat = { kind: 'unknown', cause: '', next: 'retry' } as const
    const waits = Array.from(
      { length: ATTEMPTS_MAX - 1 },
      (_, index) => pendingOpening(repeat, index + 1, 0).nextTryAtMs!,
    )
    expect(waits).toEqual(waits.toSorted((one, other) => one - other))
    expect([waits.at(0), waits.at(1), waits.at(-1)]).toEqual([5_000, 10_000, 1_800_000])
  })
})
