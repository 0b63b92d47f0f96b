import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'

const db = useDatabase(2)

interface Given {
  readonly amount: bigint
  readonly flat: bigint
  readonly points: number
  /** 0n: no maximum. */
  readonly cap: bigint
}

async function feeOf({ amount, flat, points, cap }: Given): Promise<bigint> {
  const { rows } = await db.database.durablePool.query(
    'select settlement_fee($1, $2, $3, $4) as fee',
    [amount, flat, points, cap],
  )
  return BigInt(rows[0].fee)
}

/** The fee before its bounds. Doubled before the division, so that half a kobo rounds up exactly. */
const unboundedFee = ({ amount, flat, points }: Given) =>
  flat + (amount * BigInt(points) * 2n + 10_000n) / 20_000n

describe('the fee of a payment', () => {
  test('equals exact arithmetic and exceeds neither the cap nor the payment', () =>
    fc.assert(
      fc.asyncProperty(
        fc.record({
          amount: fc.bigInt({ min: 1n, max: 1_000_000_000_000_000n }),
          flat: fc.bigInt({ min: 0n, max: 1_000_000n }),
          points: fc.nat({ max: 10_000 }),
          cap: fc.bigInt({ min: 0n, max: 1_000_000n }),
        }),
        async (given) => {
          const { amount, cap } = given
          const bounds = [unboundedFee(given), amount, ...(cap > 0n ? [cap] : [])]
          expect(await feeOf(given)).toBe(bounds.reduce((a, b) => (a < b ? a : b)))
        },
      ),
      { numRuns: 200 },
    ))

  test('of a small amount below every bound equals exact arithmetic, half a kobo up', () =>
    fc.assert(
      fc.asyncProperty(
        fc.record({
          amount: fc.bigInt({ min: 20n, max: 20_000n }),
          flat: fc.bigInt({ min: 0n, max: 9n }),
          // Multiples of 50 are at exactly half a kobo for many amounts.
          points: fc.oneof(
            fc.nat({ max: 5_000 }),
            fc.nat({ max: 100 }).map((each) => each * 50),
          ),
          cap: fc.constant(0n),
        }),
        async (given) => {
          expect(await feeOf(given)).toBe(unboundedFee(given))
        },
      ),
      { numRuns: 300 },
    ))

  test.each([
    { amount: 1, points: 4_999, fee: 0 },
    { amount: 1, points: 5_000, fee: 1 },
    { amount: 3, points: 5_000, fee: 2 },
    { amount: 49, points: 100, fee: 0 },
    { amount: 50, points: 100, fee: 1 },
    { amount: 150, points: 100, fee: 2 },
    { amount: 250, points: 100, fee: 3 },
    { amount: 4_999, points: 1, fee: 0 },
    { amount: 5_000, points: 1, fee: 1 },
    { amount: 33_300, points: 150, fee: 500 },
    { amount: 33_299, points: 150, fee: 499 },
  ])(
    'of $amount kobo at $points hundredths of a percent is $fee kobo',
    async ({ amount, points, fee }) => {
      const terms = { amount: BigInt(amount), points, flat: 0n }
      expect(await feeOf({ ...terms, cap: 0n })).toBe(BigInt(fee))
      expect(await feeOf({ ...terms, cap: BigInt(fee + 1) })).toBe(BigInt(fee))
    },
  )
})
