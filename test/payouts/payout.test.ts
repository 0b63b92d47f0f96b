import fc from 'fast-check'
import type { PoolClient } from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  balanceChangeOf,
  eventKindOf,
  isFinal,
  isLegalTransition,
  type PayoutPosting,
  type PayoutStatus,
  postingsOf,
  totalOf,
} from '../../src/payouts/payout.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { useDatabase } from '../support/database.ts'

/** A shortest way to each status. */
const WAYS: Readonly<Record<PayoutStatus, readonly PayoutStatus[]>> = {
  PENDING_APPROVAL: ['PENDING_APPROVAL'],
  APPROVED: ['APPROVED'],
  SUBMITTING: ['APPROVED', 'SUBMITTING'],
  UNKNOWN: ['APPROVED', 'SUBMITTING', 'UNKNOWN'],
  MANUAL_REVIEW: ['APPROVED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW'],
  PAID: ['APPROVED', 'SUBMITTING', 'PAID'],
  FAILED: ['APPROVED', 'SUBMITTING', 'FAILED'],
  REJECTED: ['PENDING_APPROVAL', 'REJECTED'],
  CANCELLED: ['PENDING_APPROVAL', 'CANCELLED'],
  EXPIRED: ['PENDING_APPROVAL', 'EXPIRED'],
  RETURNED: ['APPROVED', 'SUBMITTING', 'PAID', 'RETURNED'],
}
const STATUSES = Object.keys(WAYS) as PayoutStatus[]
const PAIRS = STATUSES.flatMap((from) => STATUSES.map((to) => [from, to] as const))

const minor = (min: bigint) => fc.bigInt({ min, max: 10n ** 15n })
const money = fc.record({
  source: fc.constantFrom('available' as const, 'pending' as const, 'unmatched' as const),
  amountMinor: minor(1n),
  feeMinor: minor(0n),
  dutyMinor: minor(0n),
})
type Money = Parameters<typeof postingsOf>[0]

/** The postings of a payout that went through some statuses. */
const postingsOfWay = (payout: Money, way: readonly PayoutStatus[]): PayoutPosting[] =>
  way.flatMap((status, index) => postingsOf(payout, status, { isNew: index === 0 }))

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
          ...{ pending: 0n, available: 0n, held: 0n, unmatched: 0n },
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

describe('the database', () => {
  const db = useDatabase(4)

  beforeAll(async () => {
    await db.database.durablePool.query(
      "insert into business (id, name, alias, created_at) values ('biz_1', 'A', 'A', now())",
    )
  })

  const PAYOUT: Money = { source: 'pending', amountMinor: 500n, feeMinor: 20n, dutyMinor: 3n }

  async function insertPayout(client: PoolClient, status: PayoutStatus) {
    await client.query(
      `insert into payout (id, business_id, live, reference, purpose, status, source, amount_minor, fee_minor,
          duty_minor, bank_code, bank_name, account_number, account_name, narration, enquiry_reference, bank,
          bank_reference, requested_by, approval_reason, created_at, submitted_at, completed_at, generation)
        values ('pay_1', 'biz_1', true, 'r', 'PAYOUT', $1, $2, $3, $4, $5, '000013', '', '0123456785', '', '', '',
          '9PSB', '1', '', '', now(), now(), case when $6 then now() end, 1)`,
      [status, ...Object.values(PAYOUT), isFinal(status)],
    )
  }

  /** Runs statements that are rolled back. @returns the SQLSTATE, or what they returned */
  const trying = (run: (client: PoolClient) => Promise<unknown>) => {
    const undone = new Error('rolled back')
    return inTransaction(db.database.durablePool, async (client) => {
      await run(client)
      throw undone
    }).catch((error: { code?: string }) => (error === undone ? 'accepted' : error.code))
  }

  test('allows the transitions of the table and no others', async () => {
    const found = new Map<string, unknown>()
    for (const [from, to] of PAIRS) {
      const outcome = await trying(async (client) => {
        await insertPayout(client, from)
        await client.query(
          'update payout set status = $1, completed_at = case when $2 then now() end',
          [to, isFinal(to)],
        )
      })
      found.set(`${from} → ${to}`, outcome)
    }
    const expected = PAIRS.map(([from, to]) => {
      const isAllowed = from === to || isLegalTransition(from, to)
      return [`${from} → ${to}`, isAllowed ? 'accepted' : '23000'] as const
    })
    expect(found).toEqual(new Map(expected))
  })

  const post = async (client: PoolClient, postings: readonly PayoutPosting[]) => {
    for (const { kind, debit, credit, amountMinor } of postings) {
      await client.query("insert into payout_posting values ('pay_1', $1, $2, $3, $4, now())", [
        ...[kind, debit, credit, amountMinor],
      ])
    }
    await client.query('set constraints all immediate')
  }

  test.each(STATUSES)('accepts %s with its postings, and with no others', async (status) => {
    const postings = postingsOfWay(PAYOUT, WAYS[status])
    const outcomeOf = (posted: readonly PayoutPosting[]) =>
      trying(async (client) => {
        await insertPayout(client, status)
        await post(client, posted)
      })
    expect(await outcomeOf(postings)).toBe('accepted')
    for (const posting of postings) {
      const others = postings.filter((each) => each !== posting)
      const less = { ...posting, amountMinor: posting.amountMinor - 1n }
      expect([posting.kind, await outcomeOf(others)]).toEqual([posting.kind, '23000'])
      expect([posting.kind, await outcomeOf([...others, less])]).toEqual([posting.kind, '23000'])
    }
    const all = [...postingsOfWay(PAYOUT, WAYS.RETURNED), ...postingsOf(PAYOUT, 'FAILED')]
    for (const more of all.filter(({ kind }) => postings.every((each) => each.kind !== kind))) {
      expect([more.kind, await outcomeOf([...postings, more])]).toEqual([more.kind, '23000'])
    }
  })

  test('fixes what was requested, and the bank that may have been sent it', async () => {
    const change = (status: PayoutStatus, set: string) =>
      trying(async (client) => {
        await insertPayout(client, status)
        await client.query(`update payout set ${set}`)
      })
    for (const set of [
      'amount_minor = 501',
      'fee_minor = 0',
      "account_number = '0123456786'",
      "bank_reference = '2'",
      "reference = 's'",
      "requested_by = 'x'",
    ]) {
      expect([set, await change('APPROVED', set)]).toEqual([set, '23000'])
    }
    for (const status of ['UNKNOWN', 'MANUAL_REVIEW', 'PAID'] as const) {
      expect(await change(status, "bank = 'PALMPAY'")).toBe('23000')
    }
    const remove = trying(async (client) => {
      await insertPayout(client, 'FAILED')
      await client.query('delete from payout')
    })
    expect(await remove).toMatch(/^23/)
  })
})
