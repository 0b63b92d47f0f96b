import fc from 'fast-check'
import type { Pool, PoolClient } from 'pg'
import { beforeEach, expect, test } from 'vitest'
import { HOUR_MS } from '../../src/core/durations.ts'
import { bumpEpoch } from '../../src/events/sequencer.ts'
import { countUncounted, deleteOldHours, followPayments } from '../../src/overview/figures-job.ts'
import {
  createInstance,
  incoming,
  insertBusiness,
  openTestAccount,
  testClock,
} from '../settlement/fixture.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import { createTestRuntime } from '../support/runtime.ts'

const RUNS = Number(process.env['RUNS'] ?? 8)

const NOW_MS = Date.UTC(2026, 10, 20, 11, 17)

const db = useDatabase(6)
const clock = testClock(NOW_MS)

let sessions = 0

/** A pool whose transactions lose their connection at a statement, as when the process is killed. */
function dyingAt(pool: Pool, statement: number): Pool {
  const connect = async (): Promise<PoolClient> => {
    const client = await pool.connect()
    const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>
    let statements = 0
    const dying = (...args: unknown[]) => {
      statements += 1
      if (statements <= statement) return query(...args)
      return query('select pg_terminate_backend(pg_backend_pid())')
    }
    const { query: own, release } = client
    client.query = dying as typeof client.query
    client.release = (error) => {
      client.query = own
      release.call(client, error)
    }
    return client
  }
  return { query: pool.query.bind(pool), connect } as unknown as Pool
}

const follow = (pool = db.database.durablePool) =>
  followPayments(createTestRuntime({ durablePool: pool }))

async function followAll(): Promise<void> {
  await sequence(db.database.durablePool)
  while ((await countUncounted(db.database.durablePool)) > 0n) await follow()
}

const account = fc.nat({ max: 3 })
const hoursAgo = fc.nat({ max: 3 })
const kobo = fc.bigInt({ min: 1n, max: 10n ** 15n })
const is = <Kind extends string>(kind: Kind) => fc.constant(kind)
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: is('pay'), account, hoursAgo, kobo }) },
  { weight: 1, arbitrary: fc.record({ kind: is('pending'), account, kobo }) },
  { weight: 1, arbitrary: fc.record({ kind: is('finalize') }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: is('reverse'), which: fc.nat({ max: 20 }), hoursAgo }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: is('follow'), instances: fc.integer({ min: 1, max: 3 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: is('die'), statement: fc.nat({ max: 7 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: is('epoch') }) },
)

type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never

/** Takes the steps, each of which may leave events that are not counted yet. */
async function take(steps: readonly Step[], numbers: readonly string[]): Promise<void> {
  const { durablePool } = db.database
  const { recordPayment, reverse } = createInstance(db.database, clock)
  const recorded: string[] = []
  let pending: { account: string; session: string; kobo: bigint } | undefined
  for (const each of steps) {
    clock.set(NOW_MS - ('hoursAgo' in each ? each.hoursAgo * HOUR_MS : 0))
    switch (each.kind) {
      case 'pay': {
        const live = each.account % 2 === 0
        const payment = incoming(numbers[each.account]!, `s-${++sessions}`, each.kobo)
        const bank = each.account < 2 ? '9PSB' : 'PALMPAY'
        const { transaction } = await recordPayment({ ...payment, bank, live })
        recorded.push(transaction!.id)
        break
      }
      case 'pending': {
        pending = { account: numbers[0]!, session: `s-${++sessions}`, kobo: each.kobo }
        await recordPayment(incoming(pending.account, pending.session, pending.kobo, 'PENDING'))
        break
      }
      case 'finalize': {
        if (pending) await recordPayment(incoming(pending.account, pending.session, pending.kobo))
        pending = undefined
        break
      }
      case 'reverse': {
        const transactionId = recorded.splice(each.which % (recorded.length || 1), 1)[0]
        if (transactionId === undefined) break
        await reverse(transactionId)
        break
      }
      case 'follow':
        await sequence(durablePool)
        await Promise.all(Array.from({ length: each.instances }, () => follow()))
        break
      case 'die':
        await sequence(durablePool)
        await follow(dyingAt(durablePool, each.statement)).catch(() => undefined)
        break
      case 'epoch':
        await bumpEpoch(durablePool, SYSTEM)
    }
  }
}

const FIGURES = 'payments, amount_minor, reversals, reversed_minor'

/** The figures of some businesses, and the same from the ledger. */
async function figures(ids: readonly string[]) {
  const { durablePool } = db.database
  const order = 'order by business_id, live, bank, hour'
  const counted = await durablePool.query(
    `select business_id, live, bank, hour, ${FIGURES}, last_at from payment_hour
      where business_id = any ($1) ${order}`,
    [ids],
  )
  const expected = await durablePool.query(
    `select p.business_id, p.live, t.bank, date_trunc('hour', p.created_at, 'UTC') as hour,
        count(*) filter (where kind = 'payment') as payments,
        coalesce(sum(p.amount_minor) filter (where kind = 'payment'), 0)::bigint as amount_minor,
        count(*) filter (where kind = 'payment_reversal') as reversals,
        coalesce(sum(p.amount_minor) filter (where kind = 'payment_reversal'), 0)::bigint as reversed_minor,
        max(p.created_at) filter (where kind = 'payment') as last_at
      from ledger_posting p join transaction t on t.id = p.transaction_id
      where p.business_id = any ($1) and kind in ('payment', 'payment_reversal')
      group by 1, 2, 3, 4 ${order}`,
    [ids],
  )
  return { counted: counted.rows, expected: expected.rows }
}

/** Businesses: one at each of two banks, with an account of each mode. */
async function insertBusinesses() {
  const { durablePool } = db.database
  const [first, second] = [await insertBusiness(durablePool), await insertBusiness(durablePool)]
  const numbers = [
    first.accountNumber,
    await openTestAccount(durablePool, first.accountNumber),
    second.accountNumber,
    await openTestAccount(durablePool, second.accountNumber),
  ]
  await tamper(durablePool, "update account set bank = 'PALMPAY' where business_id = $1", [
    second.id,
  ])
  return { ids: [first.id, second.id], numbers }
}

beforeEach(followAll)

test('the figures are those of the ledger, whatever instances do and wherever they die', async () => {
  let counts = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const { ids, numbers } = await insertBusinesses()
      await take(steps, numbers)
      await followAll()
      const { counted, expected } = await figures(ids)
      expect(counted).toEqual(expected)
      counts += counted.length
    }),
    { numRuns: RUNS, endOnFailure: true },
  )
  expect(counts).toBeGreaterThan(0)
})

test('the row of all businesses is the sum of the rows of each', async () => {
  const { numbers } = await insertBusinesses()
  await take(
    [
      { kind: 'pay', account: 0, hoursAgo: 1, kobo: 3n },
      { kind: 'pay', account: 2, hoursAgo: 1, kobo: 5n },
      { kind: 'reverse', which: 0, hoursAgo: 0 },
    ],
    numbers,
  )
  await followAll()
  const sums = (which: string) =>
    db.database.durablePool.query(
      `select live, bank, hour, sum(payments) as payments, sum(amount_minor) as amount_minor,
          sum(reversals) as reversals, sum(reversed_minor) as reversed_minor, max(last_at) as last_at
        from payment_hour where business_id ${which} '' group by 1, 2, 3 order by 1, 2, 3`,
    )
  expect((await sums('=')).rows).toEqual((await sums('<>')).rows)
})

test('figures that are too old are deleted', async () => {
  const { durablePool } = db.database
  await durablePool.query(
    `insert into payment_hour (business_id, live, bank, hour, payments, amount_minor, reversals, reversed_minor)
      select 'biz_old', true, '9PSB', $1::timestamptz - n * interval '1 hour', 1, 1, 0, 0
      from generate_series(-1, 2) n`,
    [new Date(0)],
  )
  expect(await deleteOldHours(durablePool, 0)).toBe(2)
  const { rows } = await durablePool.query(
    "delete from payment_hour where business_id = 'biz_old' returning hour",
  )
  expect(rows).toHaveLength(2)
})
