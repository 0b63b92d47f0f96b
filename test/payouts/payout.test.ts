import type { PoolClient } from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  isFinal,
  isLegalTransition,
  type Payout,
  type PayoutPosting,
  type PayoutStatus,
  postingsOf,
} from '../../src/payouts/payout.ts'
import { routeOf } from '../../src/payouts/route-payout.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { type Money, postingsOfWay, STATUSES, WAYS } from './ways.ts'

const PAIRS = STATUSES.flatMap((from) => STATUSES.map((to) => [from, to] as const))

test.each([
  [59_999, 5_000],
  [60_000, 25_000],
])('a payout that no bank can send %i ms after its request waits %i ms', (ageMs, waitMs) => {
  const payout = { live: true, amountMinor: 1n, businessId: 'biz_1', createdAtMs: 1 } as Payout
  const state = { paused: new Set<string>(), floats: new Map() }
  expect(routeOf(payout, new Map(), state, 1 + ageMs)).toMatchObject({ waitMs })
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

  /** Runs statements that are rolled back. @returns what they returned */
  async function returning<T>(run: (client: PoolClient) => Promise<T>): Promise<T> {
    let result: T | undefined
    const outcome = await trying(async (client) => {
      result = await run(client)
    })
    expect(outcome).toBe('accepted')
    return result as T
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
        kind,
        debit,
        credit,
        amountMinor,
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
    // Its payment has not settled, so nothing is taken of it.
    const givenBack = { releasedTo: 'pending', feeMinor: 1n, splitsMinor: 1n } as const
    const failed = postingsOf(PAYOUT, 'FAILED', { givenBack })
    const all = [...postingsOfWay(PAYOUT, WAYS.RETURNED), ...failed]
    for (const more of all.filter(({ kind }) => postings.every((each) => each.kind !== kind))) {
      expect([more.kind, await outcomeOf([...postings, more])]).toEqual([more.kind, '23000'])
    }
  })

  describe('that begins a generation', () => {
    /** Begins a generation, after changes of the sender. @returns the generation */
    async function begin(client: PoolClient, set: string) {
      await client.query(`update payout_sender set ${set}`)
      const { rows } = await client.query<{ silent_ago: number }>(
        `select round(date_part('epoch', now() - silent_since) / 60) as silent_ago from payout_generation()`,
      )
      return rows[0]
    }
    beforeAll(() => sequence(db.database.durablePool))

    test.each(STATUSES)(
      'makes what is open due, as another clock may have been ahead: %s',
      async (status) => {
        const minutes = await returning(async (client) => {
          await insertPayout(client, status)
          await client.query(
            "update payout set next_at = now() + interval '5 hours', generation = 0",
          )
          await begin(client, "alive_at = now() - interval '6 minutes'")
          const { rows } = await client.query<{ minutes: number }>(
            "select round(date_part('epoch', next_at - now()) / 60)::int as minutes from payout",
          )
          return rows[0]!.minutes
        })
        // A claim in progress keeps a lease. An approval that is missing does not hold up the question to the banks.
        const expected = isFinal(status) ? 300 : status === 'PENDING_APPROVAL' ? 0 : 5
        expect(minutes).toBe(expected)
      },
    )

    test('makes items, settlements and comparisons with banks due', async () => {
      const due = await returning(async (client) => {
        await client.query(`
          insert into payout_item (batch_id, number, reference, amount_minor, bank_code, account_number, account_name,
            narration, next_at) values ('pba_1', 1, '', 1, '', '', '', '', now() + interval '5 hours');
          insert into settlement_payout (settlement_id, business_id, live, net_minor, refusals, detail, next_at)
            values ('stl_1', 'biz_1', true, 1, 0, '', now() + interval '5 hours'), ('stl_2', 'biz_1', true, 1, 0, '', null),
              ('stl_3', 'biz_1', true, 1, 1, '', now() + interval '5 hours'),
              ('stl_4', 'biz_1', true, 1, 1, 'Its account is closed', now() + interval '5 hours'),
              ('stl_5', 'biz_1', true, 1, 1, 'Its account is closed', now() + interval '30 hours');
          insert into payout_reconciliation (bank, to_at, next_at) values ('9PSB', now(), now() + interval '5 hours')`)
        await begin(client, "alive_at = now() - interval '6 minutes'")
        const { rows } = await client.query<{ hours: (number | null)[] }>(
          `select array(select round(date_part('epoch', next_at - now()) / 3600)::int from (
              select 'item' as of, next_at from payout_item union all select settlement_id, next_at from settlement_payout
              union all select 'run', next_at from payout_reconciliation
            ) each order by of) as hours`,
        )
        return rows[0]!.hours
      })
      // A settlement that was refused waits for its day: each attempt counts.
      expect(due).toEqual([0, 0, 0, null, 0, 5, 24])
    })

    test.each([
      ['days', 60],
      ['weeks', 1],
    ])(
      'by hand, %s after the last one, keeps for a week since when others may have sent',
      async (unit, ago) => {
        const found = await returning((client) =>
          begin(
            client,
            `alive_at = now() - interval '1 minute', epoch = -1, (system_identifier, timeline) = (select system_identifier, timeline from current_cluster()),
            silent_since = now() - interval '1 hour', began_at = now() - interval '2 ${unit}'`,
          ),
        )
        expect(found?.silent_ago).toBe(ago)
      },
    )
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
