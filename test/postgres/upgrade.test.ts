import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBusinessLog } from '../../src/events/read-log.ts'
import { type Database, migrate, openDatabase } from '../../src/postgres/orm.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'

const db = useDatabase(2)
let old: Database

beforeAll(async () => {
  const url = new URL(db.url)
  url.pathname = `${url.pathname}_old`
  await db.database.pool.query(`create database ${url.pathname.slice(1)} template template0`)
  old = await openDatabase(url.href, 4)
})

afterAll(async () => {
  const name = old && new URL(old.url).pathname.slice(1)
  await old?.close()
  if (name) await db.database.pool.query(`drop database if exists ${name} with (force)`)
})

test('data from before modes becomes live, and its sequence continues', async () => {
  const { pool } = old
  await old.orm.migrator.up({ to: 'Migration20261121000000_initial' })
  await pool.query(`
    insert into business (id, name, alias, created_at) values ('biz_1', 'A', 'A', now());
    insert into api_key (id, business_id, prefix, secret_hash, created_at)
      values ('key_1', 'biz_1', 'sk_live_x', '', now());
    insert into account (id, business_id, reference, merchant_reference, bank, account_number,
        account_name, status, first_name, last_name, email, phone, details_hash, attempts,
        claimed_until, created_at)
      values ('acc_1', 'biz_1', 'R-1', 'order-1', '9PSB', '0000000001', 'A/B', 'ACTIVE', 'A', 'B',
        'a@b.co', '08012345678', '', 1, now(), now());
    insert into transaction (id, business_id, account_id, bank, session_id, amount_minor, status,
        paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
        narration)
      values ('txn_1', 'biz_1', 'acc_1', '9PSB', 's-1', 5, 'SUCCESS', now(), now(), '', '', '', '',
        '');
    insert into ledger_posting
        (transaction_id, business_id, kind, debit_account, credit_account, amount_minor, created_at)
      values ('txn_1', 'biz_1', 'payment', 'clearing:9PSB', 'pending', 5, now());
    insert into webhook_endpoint (id, business_id, url, kinds, description, concurrency,
        after_position, created_at)
      values ('ep_1', 'biz_1', '', '{}', '', 1, 0, now());
    insert into outbox (event_id, business_id, kind, occurred_at, payload)
      select 'evt_' || n, 'biz_1', 'TEST', now(), '' from generate_series(1, 2) n`)
  await sequence(pool)
  // Migrating a large table may take longer than any timeout.
  await pool.query(`
    create table migrated_under ("limit" text);
    create function note_limit() returns event_trigger language plpgsql as $$
      begin insert into migrated_under values (current_setting('statement_timeout')); end $$;
    create event trigger note_limit on ddl_command_start execute function note_limit()`)
  // Committed, but not yet sequenced when the schema changes.
  await pool.query(`insert into outbox (event_id, business_id, kind, occurred_at, payload)
    values ('evt_3', 'biz_1', 'TEST', now(), '')`)

  expect(await migrate(old)).toContain('Migration20261121010000_live')
  expect((await pool.query('select distinct "limit" from migrated_under')).rows).toEqual([
    { limit: '0' },
  ])
  const tables = ['api_key', 'account', 'transaction', 'ledger_posting', 'webhook_endpoint']
  for (const table of [...tables, 'outbox', 'event_log', 'event_business_counter']) {
    const { rows } = await pool.query(`select distinct live from ${table}`)
    expect([table, rows]).toEqual([table, [{ live: true }]])
  }
  const [testEvent] = await writeEvents(pool, 1, { businessId: 'biz_1', live: false })
  const [liveEvent] = await writeEvents(pool, 1, { businessId: 'biz_1' })
  await sequence(pool)
  const shown = async (live: boolean) => {
    const entries = await readBusinessLog(pool, 'biz_1', live, 0n, 10)
    return entries.map(({ eventId, businessSequence }) => [eventId, Number(businessSequence)])
  }
  expect(await shown(true)).toEqual([
    ['evt_1', 1],
    ['evt_2', 2],
    ['evt_3', 3],
    [liveEvent, 4],
  ])
  expect(await shown(false)).toEqual([[testEvent, 1]])
})
