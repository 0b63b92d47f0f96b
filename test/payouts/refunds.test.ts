import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { Fault } from '../../src/core/errors.ts'
import { createReversePayment } from '../../src/notifications/process-notification.ts'
import type { Payout } from '../../src/payouts/payout.ts'
import { changePayout } from '../../src/payouts/store.ts'
import { verifyPayouts } from '../../src/payouts/verify-payouts.ts'
import { readPreview } from '../../src/settlement/runs/settle.ts'
import { verifyLedger } from '../../src/settlement/verify-ledger.ts'
import { findTransactionById } from '../../src/transactions/queries.ts'
import { findDiscrepancies } from '../settlement/fixture.ts'
import { percent } from '../settlement/shares-fixture.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import { createRefundScene } from './refund-scene.ts'

const db = useDatabase()
const scene = () => createRefundScene(db.database)
const discrepancies = () => findDiscrepancies(db.database.durablePool)

const reasonOf = (call: Promise<unknown>) =>
  call.then(
    () => 'done',
    (error) => {
      if (error instanceof Fault) return error.reason
      throw error
    },
  )

describe('a refund of an unsettled payment', () => {
  it('takes pending money, and settlement settles the rest, its fee and its shares', async () => {
    const { business, refund, send } = scene()
    const [owner, recipient] = [await business(100), await business()]
    await owner.split([percent(recipient.id, 5_000)])
    const id = await owner.pay(100_000n)
    await send(await refund(id, 40_000n), 'PAID')
    expect(await owner.balance()).toEqual([60_000n, 0n, 0n])
    const { durablePool } = db.database
    await sequence(durablePool)
    const terms = { feeFlatMinor: 0n, feeBasisPoints: 100, feeCapMinor: 0n }
    const key = { businessId: owner.id, live: true }
    expect(await readPreview(durablePool, key, terms, undefined)).toMatchObject({
      transactionCount: 1n,
      grossMinor: 60_000n,
      feesMinor: 600n,
      splitsMinor: 30_000n,
    })
    const [settlement] = await owner.settle()
    expect(settlement).toMatchObject({
      transactionCount: 1n,
      grossMinor: 60_000n,
      feesMinor: 600n,
      splitsMinor: 30_000n,
    })
    expect(await owner.balance()).toEqual([0n, 29_400n, 600n])
    expect(await recipient.balance()).toEqual([0n, 30_000n, 0n])
    expect(await discrepancies()).toEqual([])
  })

  it('of all of it leaves a settlement of zero, after which the payment is not due', async () => {
    const { business, refund, send, reverse, context } = scene()
    const owner = await business()
    const id = await owner.pay(100_000n)
    await send(await refund(id), 'PAID')
    const { sessionId } = (await findTransactionById(db.database.durablePool, id))!
    const reverseByBank = createReversePayment(context, {
      isSimulated: () => true,
      findPaidReturn: async () => undefined,
      actor: SYSTEM,
    })
    expect(await reverseByBank('9PSB', sessionId, 'x')).toEqual({
      refused: `${id}: The payment has refunds: its money would leave twice`,
    })
    const [settlement] = await owner.settle()
    expect(settlement).toMatchObject({ transactionCount: 1n, grossMinor: 0n })
    expect(await owner.settle()).toEqual([])
    expect(await owner.balance()).toEqual([0n, 0n, 0n])
    expect(await reasonOf(refund(id))).toBe('refund_exceeds_payment')
    expect(await reasonOf(reverse(id))).toBe('not_reversible')
    expect(await discrepancies()).toEqual([])
  })

  it('that fails gives the money back to pending, or to available once the payment is settled', async () => {
    const { business, refund, send, reject, reverse } = scene()
    const owner = await business(0)
    const id = await owner.pay(100_000n)
    await reject(await refund(id, 30_000n))
    expect(await owner.balance()).toEqual([100_000n, 0n, 0n])
    const late = await refund(id, 30_000n)
    expect(late.source).toBe('pending')
    await owner.settle()
    expect(await owner.balance()).toEqual([0n, 70_000n, 0n])
    await send(late, 'FAILED')
    expect(await owner.balance()).toEqual([0n, 100_000n, 0n])
    expect(await reasonOf(reverse(id))).toBe('not_reversible')
    const again = await refund(id)
    expect(again).toMatchObject({ source: 'available', amountMinor: 100_000n })
    await send(again, 'PAID')
    expect(await owner.balance()).toEqual([0n, 0n, 0n])
    expect(await discrepancies()).toEqual([])
  })

  it('that is sent back is pending again, and may be requested again', async () => {
    const { business, refund, send } = scene()
    const owner = await business(0)
    const id = await owner.pay(100_000n)
    await send(await refund(id, 80_000n), 'RETURNED')
    expect(await owner.balance()).toEqual([100_000n, 0n, 0n])
    const again = await refund(id, 80_000n)
    expect(again.source).toBe('pending')
    await send(again, 'PAID')
    await owner.settle()
    expect(await owner.balance()).toEqual([0n, 20_000n, 0n])
    expect(await discrepancies()).toEqual([])
  })

  it.each(['FAILED', 'RETURNED', 'REJECTED'] as const)(
    'that is %s after its settlement bears the fee and the shares of that settlement',
    async (end) => {
      const { business, refund, send, reject } = scene()
      const [owner, recipient] = [await business(150), await business()]
      await owner.split([percent(recipient.id, 5_000)])
      const id = await owner.pay(1_000_000n)
      const refunds = [await refund(id, 400_000n), await refund(id, 600_000n)]
      expect(refunds.map(({ source }) => source)).toEqual(['pending', 'pending'])
      const [settlement] = await owner.settle()
      expect(await owner.balance()).toEqual([0n, 0n, 0n])
      // The terms of the settlement count, not those of today.
      await owner.setFee(9_000)
      for (const payout of refunds) {
        await (end === 'REJECTED' ? reject(payout) : send(payout, end))
      }
      expect(await owner.balance()).toEqual([0n, 485_000n, 15_000n])
      expect(await recipient.balance()).toEqual([0n, 500_000n, 0n])
      const kind = `REFUND_${end === 'REJECTED' ? 'CANCELLED' : end}`
      const { entries } = await owner.entries()
      const changes = entries.filter((entry) => entry.kind === kind)
      expect(changes.map((each) => [each.kind, each.availableMinor, each.feesMinor])).toEqual([
        [kind, 194_000n, 6_000n],
        [kind, 291_000n, 9_000n],
      ])
      const { entries: shares } = await recipient.entries()
      expect(shares.map((each) => [each.kind, each.subjectId, each.availableMinor])).toEqual([
        ['SHARE_SETTLED', settlement!.id, 200_000n],
        ['SHARE_SETTLED', settlement!.id, 300_000n],
      ])
      expect(await discrepancies()).toEqual([])
    },
  )

  it('bears shares up to what comes back, also where rounding would demand more', async () => {
    const { business, refund, reject } = scene()
    const owner = await business(0)
    const recipients = await Promise.all(Array.from({ length: 5 }, () => business()))
    await owner.split(recipients.map(({ id }) => percent(id, 2_000)))
    const id = await owner.pay(5n)
    const last = await refund(id, 1n)
    await owner.settle()
    expect(await owner.balance()).toEqual([0n, 4n, 0n])
    await reject(last)
    expect(await owner.balance()).toEqual([0n, 4n, 0n])
    const balances = await Promise.all(recipients.map((each) => each.balance()))
    expect(balances.map(([, available]) => available)).toEqual([1n, 0n, 0n, 0n, 0n])
    expect(await discrepancies()).toEqual([])
  })
})

test('a verification from the cursor of another verifies payouts and shares too', async () => {
  const { business, refund, reject } = scene()
  const { durablePool } = db.database
  const verify = async (from = '') => {
    const found: string[] = []
    let cursor = ''
    for await (const part of verifyLedger(durablePool, verifyPayouts, from)) {
      found.push(...part.discrepancies.map(({ subject }) => subject))
      cursor = part.cursor
    }
    return { found: new Set(found), cursor }
  }
  const [owner, recipient] = [await business(), await business()]
  await owner.split([percent(recipient.id, 5_000)])
  const [ended, open] = [await owner.pay(100_000n), await owner.pay(100_000n)]
  const [late, reserved] = [await refund(ended, 40_000n), await refund(open, 40_000n)]
  const [settlement] = await owner.settle()
  await reject(late)
  await sequence(durablePool)
  const { cursor, found } = await verify()
  expect(found).toEqual(new Set())
  const undo: string[] = []
  for (const [payout, kind] of [
    [late, 'share_1'],
    [reserved, 'reservation'],
  ] as const) {
    const add = (minor: number) =>
      `update payout_posting set amount_minor = amount_minor + ${minor}
        where payout_id = '${payout.id}' and kind = '${kind}'`
    await tamper(durablePool, add(1))
    undo.push(add(-1))
  }
  expect((await verify(cursor)).found).toEqual(new Set([settlement!.id, reserved.id, open]))
  for (const each of undo) await tamper(durablePool, each)
  expect((await verify(cursor)).found).toEqual(new Set())
})

test('refunds of many payments of one business at once do not deadlock', async () => {
  const { business, refund } = scene()
  const owner = await business()
  const ids = await Promise.all(Array.from({ length: 12 }, () => owner.pay(1_000n)))
  const results = await Promise.all(ids.map((id) => reasonOf(refund(id))))
  expect(results).toEqual(ids.map(() => 'done'))
  expect(await owner.balance()).toEqual([0n, 0n, 0n])
})

/** Expects the fee of each settled payment, with what came back of it later, to be that of what no refund from pending has. */
async function expectFees(businessId: string) {
  const { rows } = await db.database.durablePool.query(
    `select t.id, sum(fees.minor) as charged, settlement_fee(t.amount_minor - coalesce((
          select sum(p.amount_minor) from payout p where p.transaction_id = t.id and p.source = 'pending'
            and p.status not in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED')
        ), 0)::bigint, s.fee_flat_minor, s.fee_basis_points, s.fee_cap_minor) as due
      from transaction t join ledger_posting l on l.transaction_id = t.id and l.kind = 'settlement'
        join settlement s on s.id = l.settlement_id
        cross join lateral (
          select amount_minor as minor from ledger_posting where transaction_id = t.id and kind = 'fee'
          union all
          select q.amount_minor from payout p join payout_posting q on q.payout_id = p.id
          where p.transaction_id = t.id and q.kind = 'settlement_fee'
          union all select 0
        ) fees
      where t.business_id = $1 group by t.id, s.id`,
    [businessId],
  )
  expect(rows.filter(({ charged, due }) => charged !== due)).toEqual([])
}

test('whatever is refunded, settled and reversed at the same time, all sums are right', async () => {
  const { business, refund, send, reject, reverse } = scene()
  const index = fc.nat({ max: 99 })
  const command = fc.oneof(
    fc.record({ kind: fc.constant('pay' as const), minor: fc.integer({ min: 1, max: 100_000 }) }),
    fc.record({
      kind: fc.constant('refund' as const),
      index,
      percent: fc.integer({ min: 0, max: 100 }),
    }),
    fc.record({ kind: fc.constant('refund' as const), index, percent: fc.constant(0) }),
    fc.record({ kind: fc.constantFrom('PAID', 'FAILED', 'RETURNED', 'REJECTED'), index }),
    fc.record({ kind: fc.constant('reverse' as const), index }),
    fc.record({ kind: fc.constant('settle' as const) }),
  )
  const allowed = new Set([
    'done',
    'refund_exceeds_payment',
    'insufficient_balance',
    'payout_not_pending',
    'own_payout',
    'not_refundable',
    'not_reversible',
    'already_reversed',
  ])
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(command, { minLength: 1, maxLength: 4 }), { minLength: 8, maxLength: 14 }),
      async (turns) => {
        const [owner, recipient] = [await business(150), await business()]
        await owner.split([percent(recipient.id, 3_000)])
        const payments = [{ id: await owner.pay(50_000n), minor: 50_000n }]
        const refunds: Payout[] = []
        const run = async (each: typeof command extends fc.Arbitrary<infer T> ? T : never) => {
          if (each.kind === 'pay') {
            const minor = BigInt(each.minor)
            payments.push({ id: await owner.pay(minor), minor })
          } else if (each.kind === 'settle') {
            await owner.settle()
          } else if (each.kind === 'refund' || each.kind === 'reverse') {
            const { id, minor } = payments[each.index % payments.length]!
            if (each.kind === 'reverse') return reverse(id)
            refunds.push(await refund(id, (minor * BigInt(each.percent)) / 100n))
          } else if (refunds.length > 0) {
            const payout = refunds[each.index % refunds.length]!
            await (each.kind === 'REJECTED' ? reject(payout) : send(payout, each.kind))
          }
        }
        for (const turn of turns) {
          const reasons = await Promise.all(turn.map((each) => reasonOf(run(each))))
          for (const reason of reasons) expect(allowed).toContain(reason)
        }
        await owner.settle()
        const [pending, available] = await owner.balance()
        expect(pending).toBe(0n)
        await expectFees(owner.id)
        // Only a reversal may take more than is available.
        if (!turns.flat().some(({ kind }) => kind === 'reverse'))
          expect(available).toBeGreaterThanOrEqual(0n)
        expect(await discrepancies()).toEqual([])
      },
    ),
    { numRuns: Number(process.env['REFUND_RUNS'] ?? 6) },
  )
})

test('the database refuses to reverse a payment that was refunded, settled or not', async () => {
  const { business, refund } = scene()
  const owner = await business()
  const reverse = (id: string) =>
    db.database.durablePool.query("update transaction set status = 'REVERSED' where id = $1", [id])
  const settled = await owner.pay(100_000n)
  await owner.settle()
  await refund(settled, 40_000n)
  await expect(reverse(settled)).rejects.toThrow('has refunds')
  const pending = await owner.pay(100_000n)
  await refund(pending, 40_000n)
  await expect(reverse(pending)).rejects.toThrow('has refunds')
})

test('an instance that comes late, or with another status, changes nothing of a payout', async () => {
  const { business, refund, context } = scene()
  const owner = await business()
  const id = await owner.pay(100_000n)
  const before = await refund(id)
  const { durablePool } = db.database
  const changed = (seen: Payout, claimed: { claimed?: true }) =>
    changePayout(
      durablePool,
      seen,
      { status: seen.status, nextInMs: 0, ...claimed },
      context.clock.now(),
    )
  const claimed = await changed(before, { claimed: true })
  expect(claimed?.claims).toBe(before.claims + 1)
  expect(await changed(before, { claimed: true })).toBeUndefined()
  expect(await changed(claimed!, {})).toMatchObject({ claims: claimed!.claims })
  await changePayout(durablePool, claimed!, { status: 'EXPIRED' }, context.clock.now())
  expect(await changed(claimed!, {})).toBeUndefined()
  expect(await discrepancies()).toEqual([])
})
