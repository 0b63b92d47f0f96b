import { expect, test } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { migrate, readMigrations } from '../../src/postgres/migrate.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { createTestDatabase, useDatabase } from '../support/database.ts'

const db = useDatabase(4)

test('the migrations create the schema of the entities, and what entities cannot express', async () => {
  const sql = await db.database.orm.schema.getUpdateSchemaSQL({ wrap: false })
  const statements = sql
    .split(';')
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
  const known = [
    // The entity declares an identity column as a type with a suffix.
    /^alter table "outbox" alter column "seq" drop default$/,
    // Triggers and functions belong to no entity.
    /^drop trigger if exists "(transaction_guard|transaction_kept|ledger_posting_append_only|\w+_mode_guard|audit_entry_chain|audit_entry_append_only|audit_head_guard|audit_head_kept|audit_mac_kept)"/,
    /^drop trigger if exists "(transaction_posted|settlement_guard|settlement_delete_guard|archived_entry_append_only|reversal_append_only|event_business_counter_append_only)"/,
    /^drop trigger if exists "(account_id_guard|account_delete_guard|account_not_truncated|(account|session|settlement|reversal|conflict|posting|transaction)_\w+_guard|settlement_posted|payment_session_append_only|(event_log|outbox)_(append_only|kept))"/,
    /^drop trigger if exists "account_split_\w+"/,
    /^drop trigger if exists "(payment_variance_guard|payment_variance_kept|variance_transaction_guard)"/,
    /^drop view if exists "(money_event|sequencer)"/,
    /^drop function if exists "/,
    // PostgreSQL stores BETWEEN as two comparisons.
    /^alter table "webhook_endpoint" (drop|add) constraint "webhook_endpoint_concurrency"/,
  ]
  expect(statements.filter((each) => !known.some((pattern) => pattern.test(each)))).toEqual([])
})

test('every later migration states which versions work with the schema after it', async () => {
  const migrations = await readMigrations(db.database)
  const names = migrations.map(({ name }) => name)
  for (const { name } of migrations.slice(1)) {
    const module = await import(`../../src/postgres/migrations/${name}.ts`)
    const { worksSince } = module[name] as { worksSince?: string }
    expect(names.slice(0, names.indexOf(name) + 1), name).toContain(worksSince)
  }
})

test('every change of an entity has a migration', async () => {
  expect(await db.database.orm.migrator.checkSchema()).toBe(false)
})

test('a second run of the migrations does nothing', async () => {
  expect(await migrate(db.database)).toEqual([])
})

test('a database of an unreleased version is refused', async () => {
  const made = await createTestDatabase()
  const database = await openDatabase(made.url, ENTITIES, { connectionsMax: 2 })
  try {
    await database.durablePool.query(
      "update schema_migration set name = 'Migration20261121000000_initial'",
    )
    await expect(migrate(database)).rejects.toThrow(
      /^the database was made by an unreleased version of Inflow .* use an empty database$/,
    )
  } finally {
    await database.close()
    await made.drop()
  }
})

test('creates every foreign key, check, trigger and function', async () => {
  const { rows } = await db.database.durablePool.query(
    `select 'function ' || proname as what from pg_proc
        where pronamespace = 'public'::regnamespace and prokind = 'f'
      union all select 'trigger ' || tgname from pg_trigger where not tgisinternal
      order by 1`,
  )
  const names = rows.map((row) => row.what)
  for (const name of [
    'function append_only',
    'function cut_partition',
    'function drop_partition',
    'function mode_guard',
    'function sequence_events',
    'function settlement_fee',
    'function settlement_guard',
    'function split_shares',
    'trigger account_split_append_only',
    'trigger account_split_kept',
    'trigger account_split_recipient_append_only',
    'trigger account_split_recipient_kept',
    'function transaction_guard',
    'function lock_settled',
    'function settlement_posted',
    'function transaction_posted',
    'function payment_variance_guard',
    'trigger archived_entry_append_only',
    'trigger account_id_guard',
    'trigger account_delete_guard',
    'trigger account_not_truncated',
    'trigger account_mode_guard',
    'trigger posting_transaction_guard',
    'trigger transaction_account_guard',
    'trigger transaction_session_guard',
    'trigger payment_session_append_only',
    'trigger settlement_posted',
    'trigger reversal_transaction_guard',
    'trigger conflict_transaction_guard',
    'trigger payment_variance_guard',
    'trigger payment_variance_kept',
    'trigger variance_transaction_guard',
    'trigger api_key_mode_guard',
    'function audit_chain',
    'function audit_hash',
    'trigger audit_entry_append_only',
    'trigger audit_entry_chain',
    'trigger audit_head_guard',
    'trigger audit_head_kept',
    'trigger ledger_posting_append_only',
    'trigger outbox_append_only',
    'trigger event_log_append_only',
    'trigger reversal_append_only',
    'trigger event_business_counter_append_only',
    'trigger settlement_guard',
    'trigger settlement_delete_guard',
    'trigger transaction_guard',
    'trigger transaction_kept',
    'trigger transaction_posted',
    'trigger webhook_endpoint_mode_guard',
  ]) {
    expect(names).toContain(name)
  }
})
