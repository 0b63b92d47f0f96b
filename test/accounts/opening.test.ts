import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ATTEMPTS_MAX, unopened, waitMs } from '../../src/accounts/opening.ts'
import type { AccountResult } from '../../src/banks/bank.ts'

type NotOpened = Extract<AccountResult, { kind: 'unavailable' | 'unknown' }>

const result = fc.oneof(
  fc.record({ kind: fc.constant('unavailable' as const), cause: fc.string() }),
  fc.record({
    kind: fc.constant('unknown' as const),
    cause: fc.string(),
    next: fc.constantFrom('repeat' as const, 'query' as const, 'person' as const),
  }),
)

const attempt = fc.integer({ min: 1, max: 2 * ATTEMPTS_MAX })

describe('an attempt that did not open the account', () => {
  test('is gone on with by the service only where its end is unclear and the bank allows it', () => {
    fc.assert(
      fc.property(result, attempt, fc.nat(), (given: NotOpened, at, nowMs) => {
        const { state, nextTryAtMs } = unopened(given, at, nowMs)
        expect(nextTryAtMs === undefined).toBe(state === 'FREE' || state === 'PERSON')
        expect(state === 'FREE').toBe(given.kind === 'unavailable')
        if (given.kind === 'unknown' && given.next === 'person') expect(state).toBe('PERSON')
        if (given.kind === 'unknown' && at >= ATTEMPTS_MAX) expect(state).toBe('PERSON')
      }),
    )
  })

  test('waits longer from one to the next, up to half an hour', () => {
    fc.assert(
      fc.property(attempt, (at) => {
        expect(waitMs(at)).toBeGreaterThanOrEqual(5_000)
        expect(waitMs(at)).toBeLessThanOrEqual(waitMs(at + 1))
        expect(waitMs(at)).toBeLessThanOrEqual(1_800_000)
      }),
    )
  })
})
