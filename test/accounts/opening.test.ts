import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ATTEMPTS_MAX, type OpeningState, pendingOpening } from '../../src/accounts/account.ts'
import { resumeOpening } from '../../src/accounts/open-at-bank.ts'
import type {
  AccountResult,
  BankConnector,
  ConnectorName,
  NamedConnector,
} from '../../src/banks/bank.ts'

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

describe('an opening is resumed', () => {
  const connector: BankConnector = {
    afterCrash: 'retry',
    openAccount: () => Promise.reject(new Error('not asked here')),
  }
  const sandbox = { name: 'sandbox', connector, callTimeoutMs: 1 } as const
  const live = { name: 'live', connector, callTimeoutMs: 1 } as const
  const resume = (
    asked: ConnectorName,
    served: NamedConnector | undefined,
    priorState: OpeningState,
    requested = true,
  ) => {
    const opening = { account: { connector: asked }, attempt: 2, priorState, requested }
    const resumption = resumeOpening(opening, served, 0)
    return resumption.kind === 'pending' ? resumption.opening.state : resumption.kind
  }

  test('by the connector that was asked before, if that still serves the bank', () => {
    expect(resume('live', live, 'REQUERYING')).toBe('ask')
    expect(resume('sandbox', sandbox, 'CREATING')).toBe('ask')
    const dies = { ...live, connector: { ...connector, afterCrash: 'manual review' } } as const
    expect(resume('live', dies, 'CREATING')).toBe('MANUAL_REVIEW')
  })

  test('by another connector only if nothing can be open, and a caller asks for the account', () => {
    for (const state of ['CREATING', 'RETRYING', 'REQUERYING', 'RETRYABLE'] as const) {
      expect(resume('sandbox', live, state)).toBe('switch')
      expect(resume('sandbox', live, state, false)).toBe('RETRYABLE')
      expect(resume('sandbox', undefined, state)).toBe('RETRYABLE')
    }
    expect(resume('live', sandbox, 'RETRYABLE')).toBe('switch')
  })

  test('by no other connector while a bank may have opened the account', () => {
    for (const served of [sandbox, undefined]) {
      expect(resume('live', served, 'RETRYING')).toBe('RETRYING')
      expect(resume('live', served, 'REQUERYING')).toBe('REQUERYING')
      // Its bank is asked for the result before it is asked to open another one.
      expect(resume('live', served, 'CREATING')).toBe('REQUERYING')
    }
  })
})
