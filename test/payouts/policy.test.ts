import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { HOUR_MS } from '../../src/core/durations.ts'
import {
  approvalReason,
  DEFAULT_POLICY,
  DUTIES,
  dutyOf,
  type FeeBand,
  feeOf,
  limitFault,
  type PayoutPolicy,
} from '../../src/payouts/policy.ts'

const band = (more: Partial<FeeBand>): FeeBand => ({
  upToMinor: 0n,
  flatMinor: 0n,
  basisPoints: 0,
  capMinor: 0n,
  ...more,
})
const policyWith = (more: Partial<PayoutPolicy>): PayoutPolicy => ({ ...DEFAULT_POLICY, ...more })

describe('the fee', () => {
  const FEES = [
    band({ upToMinor: 500_000n, flatMinor: 1_000n }),
    band({ upToMinor: 5_000_000n, flatMinor: 2_500n }),
    band({ flatMinor: 1_000n, basisPoints: 50, capMinor: 100_000n }),
  ]

  test.each([
    [1n, 1_000n],
    [500_000n, 1_000n],
    [500_001n, 2_500n],
    [5_000_000n, 2_500n],
    [5_000_001n, 26_000n],
    [19_800_000n, 100_000n],
    [10n ** 15n, 100_000n],
  ])('of %d kobo is that of the first band that reaches it: %d', (amountMinor, feeMinor) => {
    expect(feeOf(FEES, amountMinor)).toBe(feeMinor)
  })

  test('is nothing without a band that reaches the amount', () => {
    expect(feeOf([], 100n)).toBe(0n)
    expect(feeOf([band({ upToMinor: 99n, flatMinor: 5n })], 100n)).toBe(0n)
  })

  test('rounds half a kobo up', () => {
    const fees = [band({ basisPoints: 1 })]
    expect([4_999n, 5_000n, 14_999n, 15_000n].map((minor) => feeOf(fees, minor))).toEqual([
      0n,
      1n,
      1n,
      2n,
    ])
  })

  test('is within a kobo of the exact one, never above its maximum, and never less for more', () => {
    const amount = fc.bigInt({ min: 1n, max: 10n ** 15n })
    const fee = fc.record({
      upToMinor: fc.constant(0n),
      flatMinor: fc.bigInt({ min: 0n, max: 10n ** 6n }),
      basisPoints: fc.nat(10_000),
      capMinor: fc.bigInt({ min: 0n, max: 10n ** 9n }),
    })
    fc.assert(
      fc.property(fee, amount, amount, (one, a, b) => {
        const charged = feeOf([one], a)
        const exact = one.flatMinor * 10_000n + a * BigInt(one.basisPoints)
        if (one.capMinor > 0n) expect(charged).toBeLessThanOrEqual(one.capMinor)
        if (one.capMinor === 0n || charged < one.capMinor) {
          const off = charged * 10_000n - exact
          expect(off).toBeGreaterThan(-5_000n)
          expect(off).toBeLessThanOrEqual(5_000n)
        }
        if (a <= b) expect(feeOf([one], b)).toBeGreaterThanOrEqual(charged)
      }),
    )
  })
})

describe('the duty', () => {
  test('is owed by the sender of 10,000 naira or more from 2026 on, and was the receiver’s before', () => {
    const duties = ['2020-12-31', '2021-01-01', '2025-12-31', '2026-01-01', '2031-05-01'].map(
      (day) => [dutyOf(999_999n, day), dutyOf(1_000_000n, day), dutyOf(10n ** 15n, day)],
    )
    expect(duties).toEqual([
      [0n, 0n, 0n],
      [0n, 0n, 0n],
      [0n, 0n, 0n],
      [0n, 5_000n, 5_000n],
      [0n, 5_000n, 5_000n],
    ])
  })

  test('is stated in the order of its days', () => {
    const days = DUTIES.map(({ since }) => since)
    expect(days).toEqual([...new Set(days)].sort())
    for (const day of days) expect(new Date(day).toISOString().slice(0, 10)).toBe(day)
  })
})

describe('a limit', () => {
  const LIMITS = { payoutMaxMinor: 100n, dailyMaxMinor: 1_000n, monthlyMaxMinor: 5_000n }
  const faultOf = (sums: { amountMinor?: bigint; dayMinor?: bigint; monthMinor?: bigint }) =>
    limitFault(policyWith(LIMITS), { amountMinor: 100n, dayMinor: 0n, monthMinor: 0n, ...sums })

  test('is reached and not exceeded by what is just as much', () => {
    expect(faultOf({ dayMinor: 900n, monthMinor: 4_900n })).toBeUndefined()
  })

  test.each([
    [{ amountMinor: 101n }, 'must be at most 1.00 naira, the limit of one payout'],
    [{ dayMinor: 901n }, "exceeds what is left of today's limit, 0.99 naira"],
    [{ dayMinor: 1_200n }, "exceeds what is left of today's limit, 0.00 naira"],
    [{ monthMinor: 4_901n }, "exceeds what is left of this month's limit, 0.99 naira"],
  ])('is stated with what is left of it: %o', (sums, text) => {
    expect(faultOf(sums)).toBe(text)
  })

  test('of 0 does not limit', () => {
    const sums = { amountMinor: 10n ** 15n, dayMinor: 10n ** 18n, monthMinor: 10n ** 18n }
    expect(limitFault(DEFAULT_POLICY, sums)).toBeUndefined()
  })
})

describe('an approval', () => {
  const NOW_MS = Date.UTC(2026, 10, 28, 12)
  const OLD_MS = NOW_MS - 24 * HOUR_MS
  const reasonOf = (
    policy: Partial<PayoutPolicy>,
    amountMinor: bigint,
    firstUsedAtMs: number | undefined = OLD_MS,
  ) => approvalReason(policyWith(policy), { amountMinor, firstUsedAtMs, nowMs: NOW_MS })

  test('is needed above its amount, of each payout if that is 0, and of none if there is no amount', () => {
    expect(reasonOf({ approvalAboveMinor: 500n }, 500n)).toBeUndefined()
    expect(reasonOf({ approvalAboveMinor: 500n }, 501n)).toBe('more than 5.00 naira')
    expect(reasonOf({ approvalAboveMinor: 0n }, 1n)).toBe('more than 0.00 naira')
    expect(reasonOf({}, 10n ** 15n)).toBeUndefined()
  })

  test('is needed of more than a small amount to a beneficiary for a day after its first payout', () => {
    const small = DEFAULT_POLICY.newBeneficiaryMaxMinor
    const text = 'more than 100000.00 naira to a beneficiary that is new for 24 hours'
    const known = { nowMs: NOW_MS, firstUsedAtMs: undefined }
    expect(approvalReason(DEFAULT_POLICY, { ...known, amountMinor: small })).toBeUndefined()
    expect(approvalReason(DEFAULT_POLICY, { ...known, amountMinor: small + 1n })).toBe(text)
    expect(reasonOf({}, small + 1n, OLD_MS + 1)).toBe(text)
    expect(reasonOf({}, small + 1n, OLD_MS)).toBeUndefined()
    const without = policyWith({ coolDownHours: 0 })
    expect(approvalReason(without, { ...known, amountMinor: small + 1n })).toBeUndefined()
  })
})
