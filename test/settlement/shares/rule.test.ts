import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { FEE_BEARERS, type FeeBearer } from '../../../src/accounts/splits/split.ts'
import { insertSplit } from '../../../src/accounts/splits/split-store.ts'
import { newId } from '../../../src/core/ids.ts'
import { inTransaction } from '../../../src/postgres/in-transaction.ts'
import { useDatabase } from '../../support/database.ts'
import { insertBusiness } from '../fixture.ts'

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
      { numRuns: 300 },
    ))

  test('are together never less of a larger payment with the same fee', () =>
    fc.assert(
      fc.asyncProperty(given, fc.bigInt({ min: 1n, max: 1_000n }), async (each, more) => {
        const larger = { ...each, amount: each.amount + more }
        expect(sum(await sharesOf(larger))).toBeGreaterThanOrEqual(sum(await sharesOf(each)))
      }),
      { numRuns: 100 },
    ))

  test('are taken in the order of the recipients: a share depends on none after it', () =>
    fc.assert(
      fc.asyncProperty(given, async (each) => {
        const shares = await sharesOf(each)
        const first = { ...each, parts: each.parts.slice(0, -1) }
        expect(await sharesOf(first)).toEqual(shares.slice(0, -1))
      }),
      { numRuns: 100 },
    ))

  test.each<[string, Given, bigint[]]>([
    ['rounds down', { amount: 999n, fee: 0n, bearer: 'OWNER', parts: [{ points: 3_333 }] }, [332n]],
    [
      'of the amount, if the owner bears the fee',
      { amount: 10_000n, fee: 150n, bearer: 'OWNER', parts: [{ points: 2_000 }, { fixed: 500n }] },
      [2_000n, 500n],
    ],
    [
      'of the amount less the fee, if all bear it',
      { amount: 10_000n, fee: 150n, bearer: 'SHARED', parts: [{ points: 2_000 }, { fixed: 500n }] },
      [1_970n, 500n],
    ],
    [
      'never more than what is left',
      {
        amount: 1_000n,
        fee: 100n,
        bearer: 'OWNER',
        parts: [{ points: 5_000 }, { fixed: 700n }, { points: 1_000 }],
      },
      [500n, 400n, 0n],
    ],
    [
      'of everything, but for the fee',
      { amount: 1_000n, fee: 15n, bearer: 'OWNER', parts: [{ points: 10_000 }] },
      [985n],
    ],
    ['of nothing', { amount: 9n, fee: 9n, bearer: 'SHARED', parts: [{ fixed: 1n }] }, [0n]],
    ['of less than a kobo', { amount: 1n, fee: 0n, bearer: 'OWNER', parts: [{ points: 1 }] }, [0n]],
  ])('%s', async (_what, each, shares) => {
    expect(await sharesOf(each)).toEqual(shares)
  })
})
