import { expect, test } from 'vitest'
import { sweepDue } from '../../src/settlement/sweep-due.ts'
import { useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { createInstance, testClock } from './fixture.ts'

/** More than two pages of a sweep. */
const BUSINESSES = 450
const HOUR_MS = 3_600_000

const db = useDatabase(4)
const clock = testClock(Date.now())

/** Businesses with one pending payment each. */
const SEED = [
  `insert into business (id, name, alias, created_at)
    select 'biz_' || n, 'A', 'A', now() from generate_series(1, $1::int) n`,
  `insert into transaction (id, business_id, live, account_id, bank, session_id, amount_minor, status,
      paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
      narration, recorded_by)
    select 'txn_' || n, 'biz_' || n, true, 'acc_' || n, '9PSB', n::text, 100, 'SUCCESS', now(), now(), '',
      '', '', '', '', 'notification' from generate_series(1, $1::int) n`,
  `insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id,
      pending_minor)
    select 'evt_' || n, 'biz_' || n, true, 'PAYMENT_NOTIFICATION', now(), '', 'txn_' || n, 100
    from generate_series(1, $1::int) n`,
]

test('a sweep goes through every page of balances, and begins again an hour later', async () => {
  const { durablePool } = db.database
  const client = await durablePool.connect()
  try {
    await client.query("set session_replication_role = 'replica'")
    for (const insert of SEED) await client.query(insert, [BUSINESSES])
  } finally {
    client.release(true)
  }
  await sequence(durablePool)
  const instance = createInstance(db.database, clock)
  const listed = async () => {
    const { rows } = await durablePool.query('select count(*)::int as count from settlement_due')
    return rows[0].count
  }
  for (const _ of [1, 2]) {
    await sweepDue(instance)
    expect(await listed()).toBe(BUSINESSES)
    await durablePool.query('delete from settlement_due')
    // The sweep is complete.
    await sweepDue(instance)
    expect(await listed()).toBe(0)
    clock.set(clock.now() + HOUR_MS)
  }
})
