import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { termsFields as ninePsbFields } from '../../src/banks/9psb/9psb.ts'
import type { OrderTerms } from '../../src/banks/bank.ts'
import { termsFields as safeHavenFields } from '../../src/banks/safehaven/open-account.ts'
import { MINUTE_MS } from '../../src/core/durations.ts'
import { ninePsbFixture } from './9psb-fixture.ts'
import { accountOrder, signal } from './fixture.ts'

const NOW_MS = Date.UTC(2026, 10, 22)

const terms = (overrides: Partial<OrderTerms> = {}): OrderTerms => ({
  expectedAmountMinor: 500_050n,
  amountRule: 'EXACT',
  expiresAtMs: undefined,
  ...overrides,
})

describe('9PSB', () => {
  test.each([
    ['EXACT', 'EXACT'],
    ['AT_LEAST', 'HIGHEROREXACT'],
    ['AT_MOST', 'LOWEROREXACT'],
  ] as const)('enforces the amount rule %s as %s', (amountRule, amounttype) => {
    expect(ninePsbFields(terms({ amountRule }), NOW_MS)).toEqual({
      amount: { amount: 5000.5, amounttype },
    })
  })

  test('keeps a static account that takes any amount without terms that it could enforce', () => {
    expect(ninePsbFields(undefined, NOW_MS)).toEqual({})
    expect(ninePsbFields(terms({ amountRule: 'ANY' }), NOW_MS)).toEqual({})
    const distant = terms({ amountRule: 'ANY', expiresAtMs: NOW_MS + 1441 * MINUTE_MS })
    expect(ninePsbFields(distant, NOW_MS)).toEqual({})
  })

  test('expires an account within a day itself, never before it expires here', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1440 }), (minutes) => {
        const expiresAtMs = NOW_MS + minutes * MINUTE_MS
        const { account } = ninePsbFields(terms({ expiresAtMs }), NOW_MS)
        const { type, expiry } = account as { type: string; expiry: { hours: number } }
        expect(type).toBe('DYNAMIC')
        expect(Number.isInteger(expiry.hours) && expiry.hours >= 1 && expiry.hours <= 24).toBe(true)
        expect(expiry.hours * 60).toBeGreaterThanOrEqual(minutes)
        expect(expiry.hours * 60).toBeLessThan(minutes + 60)
      }),
    )
  })

  test('opens such an account at the bank', async () => {
    const { connector, bank } = await ninePsbFixture()
    const expiring = terms({ expiresAtMs: Date.now() + 90 * MINUTE_MS })
    const result = await connector.openAccount(accountOrder({ terms: expiring }), signal)
    expect(result.kind).toBe('opened')
    expect(bank.accounts.size).toBe(1)
  })
})

describe('Safe Haven', () => {
  test.each([
    ['EXACT', 'Fixed'],
    ['AT_LEAST', 'OverPayment'],
    ['AT_MOST', 'UnderPayment'],
  ] as const)('enforces the amount rule %s as %s', (amountRule, amountControl) => {
    expect(safeHavenFields(terms({ amountRule }), NOW_MS)).toEqual({
      amountControl,
      amount: 5000.5,
    })
  })

  test('expires an account itself, never before it expires here', () => {
    const of = (ms: number) => safeHavenFields(terms({ expiresAtMs: NOW_MS + ms }), NOW_MS)
    expect(of(3_600_500)).toMatchObject({ validFor: 3_601 })
    expect(of(1_000)).toMatchObject({ validFor: 60 })
    expect(safeHavenFields(undefined, NOW_MS)).toEqual({})
  })
})
