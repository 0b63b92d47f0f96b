import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  askAgainMs,
  balanceChangeOf,
  bankReferenceOf,
  eventKindOf,
  isFinal,
  isLegalTransition,
  type PayoutStatus,
  postingsOf,
  totalOf,
} from '../../src/payouts/payout.ts'
import { postingsOfWay, STATUSES, WAYS } from './ways.ts'

const minor = (min: bigint) => fc.bigInt({ min, max: 10n ** 15n })
const money = fc.record({
  source: fc.constantFrom('available' as const, 'pending' as const, 'unmatched' as const),
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
          pending: 0n,
          available: 0n,
          held: 0n,
          unmatched: 0n,
          reserved: 0n,
          paid_out: 0n,
          fees: 0n,
          duty: 0n,
          splits: 0n,
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
        expect(sums.pending + sums.available + sums.unmatched).toBe(back - left)
        // What came back of an unmatched payment is no business's.
        if (payout.source === 'unmatched') expect(sums.available).toBe(0n)
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

  test('is not posted where there is none, and a held payment gets it back for its reversal', () => {
    const money = { amountMinor: 5n, feeMinor: 0n, dutyMinor: 0n }
    const paid = { kind: 'payment', debit: 'reserved', amountMinor: 5n }
    const postings = (source: 'available' | 'held') => postingsOf({ ...money, source }, 'PAID')
    expect(postings('available')).toEqual([{ ...paid, credit: 'paid_out' }])
    expect(postings('held')).toEqual([{ ...paid, credit: 'held' }])
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

test('every status is reached by legal transitions, and nothing follows a final one but a return', () => {
  for (const way of Object.values(WAYS)) {
    for (const [index, to] of way.slice(1).entries()) {
      expect(isLegalTransition(way[index]!, to), `${way[index]} → ${to}`).toBe(true)
    }
  }
  const after = STATUSES.filter(isFinal).flatMap((from) =>
    STATUSES.filter((to) => isLegalTransition(from, to)).map((to) => `${from} → ${to}`),
  )
  expect(after).toEqual(['PAID → RETURNED'])
  expect(STATUSES.filter((from) => isLegalTransition(from, 'PENDING_APPROVAL'))).toEqual([])
})

test('our reference at the bank follows from business, mode and reference, and never changes', () => {
  const key = { businessId: 'biz_1', live: true, reference: 'rent' }
  // The banks know transfers by it: another one for the same request would be a second transfer.
  expect(bankReferenceOf(key)).toBe('CONQJ3WCRUGW9GTODBY1YCPV6')
  const references = [
    key,
    { ...key, live: false },
    { ...key, reference: 'rent2' },
    { ...key, businessId: 'biz_1r' },
    { ...key, businessId: 'biz_', reference: '1rent' },
  ].map(bankReferenceOf)
  expect(new Set(references).size).toBe(references.length)
  for (const reference of references) expect(reference).toMatch(/^[0-9A-Z]{25}$/)
})

test('a bank is asked again soon at first, and then every hour', () => {
  const waits = Array.from({ length: 12 }, (_, attempts) => askAgainMs(attempts) / 1_000)
  expect(waits).toEqual([2, 5, 10, 30, 60, 120, 300, 900, 1_800, 3_600, 3_600, 3_600])
})
