import type { PoolClient } from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  isFinal,
  isLegalTransition,
  type PayoutPosting,
  type PayoutStatus,
  postingsOf,
} from '../../src/payouts/payout.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { useDatabase } from '../support/database.ts'
import { type Money, postingsOfWay, STATUSES, WAYS } from './ways.ts'

const PAIRS = STATUSES.flatMap((from) => STATUSES.map((to) => [from, to] as const))

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
