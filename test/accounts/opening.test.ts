import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ATTEMPTS_MAX, unopened } from '../../src/accounts/opening.ts'
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
  test('is gone on with by the service only where its end is unclear and the bank allows it', () => {
    fc.assert(
      fc.property(result, attempt, fc.nat(), (given: NotOpened, at, nowMs) => {
        const { state, nextTryAtMs } = unopened(given, at, nowMs)
        expect(nextTryAtMs === undefined).toBe(state === 'FREE' || state === 'PERSON')
        expect(state === 'FREE').toBe(given.kind === 'unavailable')
        if (given.kind === 'unknown' && given.next === 'manual review') expect(state).toBe('PERSON')
        if (given.kind === 'unknown' && at >= ATTEMPTS_MAX) expect(state).toBe('PERSON')
      }),
    )
  })

  test('waits longer from one to the next, up to half an hour', () => {
    const repeat = { kind: 'unknown', cause: '', next: 'retry' } as const
    const waits = Array.from(
      { length: ATTEMPTS_MAX - 1 },
      (_, index) => unopened(repeat, index + 1, 0).nextTryAtMs!,
    )
    expect(waits).toEqual(waits.toSorted((one, other) => one - other))
    expect([waits.at(0), waits.at(1), waits.at(-1)]).toEqual([5_000, 10_000, 1_800_000])
  })
})
