import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { DAY_MS } from '../../src/core/durations.ts'
import { useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { rowsRead } from '../support/rows-read.ts'
import { createInstance, testClock } from './fixture.ts'

const BUSINESSES = 5_000
const DUE = 3

/** All tables with a row for each business, or more. */
const TABLES = [
  'business',
  'settlement_terms',
  'settlement_due',
  'settlement',
  'event_business_counter',
  'transaction',
  'ledger_posting',
  'outbox',
  'event_log',
  'archived_entry',
]

const db = useDatabase(8)
const clock = testClock(Date.now())

/** Businesses with a pending payment each; those of the first few are old. */
beforeAll(async () => {
  const client = new pg.Client({
    connectionString: db.url,
    options: '-c session_replication_role=replica -c synchronous_commit=off',
  })
  await client.connect()
  try {
    for (const insert of SEED) await client.query(insert, [BUSINESSES, DUE])
    await sequence(db.database.durablePool)
    await client.query(LOGGED, [DUE])
    await client.query('vacuum (analyze)')
  } finally {
    await client.end()
  }
})

/** What the sequencer would have written at that time. */
const LOGGED = `update event_log set logged_at = now() - interval '40 days'
  where business_id = any (select 'biz_' || n from generate_series(1, $1::int) n)`

const SEED = [
  `insert into business (id, name, alias, created_at)
    select 'biz_' || n, 'A', 'A', now() from generate_series(1, $1::int) n where $2::int > 0`,
  `insert into transaction (id, business_id, live, account_id, bank, session_id, amount_minor, status,
      paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
      narration, recorded_by)
    select 'txn_' || n, 'biz_' || n, true, 'acc_' || n, '9PSB', n::text, 100, 'SUCCESS', at, at, '',
      '', '', '', '', 'notification'
    from generate_series(1, $1::int) n
    cross join lateral (select now() - (n <= $2)::int * interval '40 days' as at) paid`,
  `insert into ledger_posting (transaction_id, kind, business_id, live, debit_account, credit_account,
      amount_minor, created_at)
    select 'txn_' || n, 'payment', 'biz_' || n, true, 'clearing:9PSB', 'pending', 100, now()
    from generate_series(1, $1::int) n where $2::int > 0`,
  `insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id,
      pending_minor)
    select 'evt_' || n, 'biz_' || n, true, 'PAYMENT_NOTIFICATION',
      now() - (n <= $2)::int * interval '40 days', '', 'txn_' || n, 100
    from generate_series(1, $1::int) n`,
]

const run = (pool: pg.Pool) =>
  createInstance({ ...db.database, durablePool: pool }, clock).job.run()

/** Before anything is due, the first runs read the log and sweep the balances, a part in each run. */
async function prepare(pool: pg.Pool): Promise<void> {
  clock.set(clock.now() - 40 * DAY_MS)
  await pool.query('update settlement_sweep set next_at = $1', [new Date(clock.now())])
  let isSwept = false
  for (let runs = 0; runs < 100 && !isSwept; runs++) {
    await run(pool)
    const sql = 'select next_at > $1 as is_swept from settlement_sweep'
    const { rows } = await pool.query<{ is_swept: boolean }>(sql, [new Date(clock.now())])
    isSwept = rows[0]!.is_swept
  }
  expect(isSwept).toBe(true)
  // The next hourly one is not what this test measures.
  await pool.query("update settlement_sweep set next_at = 'infinity'")
  await pool.query('vacuum (analyze) settlement_due, log_follower')
  clock.set(clock.now() + 40 * DAY_MS)
}

test('a run reads what is due, not every business', async () => {
  const { durablePool } = db.database
  await prepare(durablePool)
  const { rows } = await durablePool.query('select count(*)::int as count from settlement_due')
  expect(rows).toEqual([{ count: BUSINESSES }])
  const read = await rowsRead(durablePool, TABLES, async (pool) => {
    await run(pool)
    const settled = await pool.query("select from settlement where status = 'COMPLETED'")
    expect(settled.rowCount).toBe(DUE)
  })
  expect(read).toBeLessThan(DUE * 60)
  await run(durablePool)
  // Once they are settled, a run finds nothing to do.
  expect(await rowsRead(durablePool, TABLES, run)).toBeLessThan(10)
})
