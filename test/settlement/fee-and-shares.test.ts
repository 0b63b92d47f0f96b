import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { FEE_BEARERS, type FeeBearer } from '../../src/accounts/splits/split.ts'
import { insertSplit } from '../../src/accounts/splits/split-store.ts'
import { newId } from '../../src/core/ids.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { useDatabase } from '../support/database.ts'
import { insertBusiness } from './fixture.ts'

const db = useDatabase(2)

/** A percentage in basis points, or a fixed amount in kobo. */
type Part = { readonly points: number } | { readonly fixed: bigint }

interface Given {
  readonly amount: bigint
  readonly fee: bigint
  readonly bearer: FeeBearer
  readonly parts: readonly Part[]
}

let accountId: string
const recipients: string[] = []
let versions = 0

beforeAll(async () => {
  const { durablePool } = db.database
  const { id } = await insertBusiness(durablePool)
  const { rows } = await durablePool.query('select id from account where business_id = $1', [id])
  accountId = rows[0].id
  for (let count = 0; count < 5; count++) recipients.push((await insertBusiness(durablePool)).id)
})

/** The shares by the database; 0 for recipients who get none. */
async function sharesOf({ amount, fee, bearer, parts }: Given): Promise<bigint[]> {
  const { durablePool } = db.database
  versions += 1
  const split = {
    feeBearer: bearer,
    recipients: parts.map((part, index) => ({
      businessId: recipients[index]!,
      basisPoints: 'points' in part ? part.points : undefined,
      fixedMinor: 'fixed' in part ? part.fixed : undefined,
    })),
  }
  const version = { id: newId('spl', versions), accountId, validFromMs: versions, split }
  await inTransaction(durablePool, (client) => insertSplit(client, version))
  const { rows } = await durablePool.query<{
    number: number
    business_id: string
    share_minor: string
  }>('select * from split_shares($1, $2, $3, $4) order by number', [
    accountId,
    new Date(versions),
    amount,
    fee,
  ])
  for (const row of rows) expect(row.business_id).toBe(recipients[row.number - 1])
  const byNumber = new Map(rows.map((row) => [row.number, BigInt(row.share_minor)]))
  return parts.map((_, index) => byNumber.get(index + 1) ?? 0n)
}

/** The rule in exact arithmetic, recipient by recipient. */
function modelOf({ amount, fee, bearer, parts }: Given): bigint[] {
  const base = bearer === 'SHARED' ? amount - fee : amount
  let left = amount - fee
  return parts.map((part) => {
    const wanted = 'fixed' in part ? part.fixed : (base * BigInt(part.points)) / 10_000n
    const share = wanted < left ? wanted : left
    left -= share
    return share
  })
}

const sum = (shares: readonly bigint[]) => shares.reduce((total, share) => total + share, 0n)

const part = fc.oneof(
  fc.record({ points: fc.integer({ min: 1, max: 2_000 }) }),
  fc.record({ points: fc.integer({ min: 2_000, max: 10_000 }) }),
  fc.record({ fixed: fc.bigInt({ min: 1n, max: 1_000n }) }),
  fc.record({ fixed: fc.bigInt({ min: 1n, max: 1_000_000_000_000_000n }) }),
)

const given: fc.Arbitrary<Given> = fc
  .record({
    amount: fc.oneof(
      fc.bigInt({ min: 1n, max: 2_000n }),
      fc.bigInt({ min: 1n, max: 1_000_000_000_000_000n }),
    ),
    feePoints: fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 10_000n })),
    bearer: fc.constantFrom(...FEE_BEARERS),
    parts: fc.array(part, { minLength: 1, maxLength: 5 }),
  })
  .filter(({ parts }) => {
    const points = parts.map((each) => ('points' in each ? each.points : 0))
    return points.reduce((total, each) => total + each, 0) <= 10_000
  })
  .map(({ feePoints, ...rest }) => ({ ...rest, fee: (rest.amount * feePoints) / 10_000n }))

describe('the shares of a payment', () => {
  test('equal exact arithmetic; with the fee and the rest of the owner they are the amount', () =>
    fc.assert(
      fc.asyncProperty(given, async (each) => {
        const shares = await sharesOf(each)
        expect(shares).toEqual(modelOf(each))
        for (const share of shares) expect(share).toBeGreaterThanOrEqual(0n)
        // What the owner keeps.
        expect(each.amount - each.fee - sum(shares)).toBeGreaterThanOrEqual(0n)
      }),
      { numRuns: 100 },
    ))
})

interface GivenFee {
  readonly amount: bigint
  readonly flat: bigint
  readonly points: number
  /** 0n: no maximum. */
  readonly cap: bigint
}

async function feeOf({ amount, flat, points, cap }: GivenFee): Promise<bigint> {
  const { rows } = await db.database.durablePool.query(
    'select settlement_fee($1, $2, $3, $4) as fee',
    [amount, flat, points, cap],
  )
  return BigInt(rows[0].fee)
}

const amountUpTo = (max: bigint) => fc.bigInt({ min: 1n, max })

describe('the fee of a payment', () => {
  test('equals exact arithmetic and exceeds neither the cap nor the payment', () =>
    fc.assert(
      fc.asyncProperty(
        fc.record({
          amount: fc.oneof(amountUpTo(20_000n), amountUpTo(1_000_000_000_000_000n)),
          flat: fc.oneof(fc.constant(0n), amountUpTo(1_000_000n)),
          // Multiples of 50 are at exactly half a kobo for many amounts.
          points: fc.oneof(
            fc.nat({ max: 10_000 }),
            fc.nat({ max: 100 }).map((each) => each * 50),
          ),
          cap: fc.oneof(fc.constant(0n), amountUpTo(1_000_000n)),
        }),
        async (given) => {
          const { amount, flat, points, cap } = given
          // Doubled before the division, so that half a kobo rounds up exactly.
          const unbounded = flat + (amount * BigInt(points) * 2n + 10_000n) / 20_000n
          const bounds = [unbounded, amount, ...(cap > 0n ? [cap] : [])]
          expect(await feeOf(given)).toBe(bounds.reduce((a, b) => (a < b ? a : b)))
        },
      ),
      { numRuns: 100 },
    ))

  test.each([
    { amount: 49n, points: 100, fee: 0n },
    { amount: 50n, points: 100, fee: 1n },
    { amount: 33_299n, points: 150, fee: 499n },
    { amount: 33_300n, points: 150, fee: 500n },
  ])(
    'of $amount kobo at $points hundredths of a percent is $fee kobo',
    async ({ fee, ...given }) => {
      expect(await feeOf({ ...given, flat: 0n, cap: 0n })).toBe(fee)
    },
  )
})
