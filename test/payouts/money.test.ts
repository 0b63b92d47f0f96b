import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  balanceChangeOf,
  eventKindOf,
  isFinal,
  isLegalTransition,
  type PayoutStatus,
  totalOf,
} from '../../src/payouts/payout.ts'
import { postingsOfWay, STATUSES } from './ways.ts'

const minor = (min: bigint) => fc.bigInt({ min, max: 10n ** 15n })
const money = fc.record({
  source: fc.constantFrom('available' as const, 'pending' as const),
  amountMinor: minor(1n),
  feeMinor: minor(0n),
  dutyMinor: minor(0n),
})
/** A payout from its request on, by legal transitions. */
const way = fc.array(fc.nat(), { minLength: 1, maxLength: 12 }).map(([first = 0, ...choices]) => {
  const taken: PayoutStatus[] = [first % 2 === 0 ? 'PENDING_APPROVAL' : 'APPROVED']
  for (const choice of choices) {
    const from = taken.at(-1)!
    const next = STATUSES.filter((to) => isLegalTransition(from, to))
    if (next.length > 0) taken.push(next[choice % next.length]!)
  }
  return taken
})

describe('the money of a payout', () => {
  test('is reserved until its status is final, and then paid out or back where it came from', () => {
    fc.assert(
      fc.property(money, way, (payout, statuses) => {
        const sums = {
          ...{ pending: 0n, available: 0n, held: 0n },
          ...{ reserved: 0n, paid_out: 0n, fees: 0n, duty: 0n },
        }
        const postings = postingsOfWay(payout, statuses)
        for (const { debit, credit, amountMinor } of postings) {
          expect(amountMinor).toBeGreaterThan(0n)
          sums[debit] -= amountMinor
          sums[credit] += amountMinor
        }
        const total = totalOf(payout)
        const status = statuses.at(-1)!
        const wasPaid = status === 'PAID' || status === 'RETURNED'
        expect(sums.reserved).toBe(isFinal(status) ? 0n : total)
        expect(sums.paid_out).toBe(status === 'PAID' ? payout.amountMinor : 0n)
        expect(sums.fees).toBe(wasPaid ? payout.feeMinor : 0n)
        expect(sums.duty).toBe(wasPaid ? payout.dutyMinor : 0n)
        // What a business gets back of a fee or duty that was charged: nothing.
        const back = status === 'RETURNED' ? payout.amountMinor : 0n
        const left = wasPaid || !isFinal(status) ? total : 0n
        expect(sums.pending + sums.available).toBe(back - left)
        expect(Object.values(sums).reduce((sum, each) => sum + each, 0n)).toBe(0n)
        expect(balanceChangeOf(postings)).toEqual({
          pendingMinor: sums.pending,
          availableMinor: sums.available,
          feesMinor: sums.fees,
        })
        // The primary key allows one posting of each kind.
        expect(new Set(postings.map(({ kind }) => kind)).size).toBe(postings.length)
      }),
    )
  })

  test('moves with an event, and with its request and each final status there is one', () => {
    const kinds = (purpose: 'PAYOUT' | 'REFUND' | 'SETTLEMENT') =>
      STATUSES.flatMap((status) => eventKindOf(purpose, status) ?? [])
    expect(eventKindOf('PAYOUT', 'APPROVED', true)).toBe('PAYOUT_REQUESTED')
    expect(eventKindOf('REFUND', 'PENDING_APPROVAL', true)).toBe('REFUND_REQUESTED')
    expect(new Set(kinds('REFUND'))).toEqual(
      new Set(['REFUND_PAID', 'REFUND_FAILED', 'REFUND_CANCELLED', 'REFUND_RETURNED']),
    )
    expect(kinds('SETTLEMENT')).toEqual(kinds('PAYOUT'))
    for (const status of STATUSES) {
      expect(eventKindOf('PAYOUT', status) !== undefined, status).toBe(isFinal(status))
    }
  })
})
