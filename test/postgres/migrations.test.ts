import { expect, test } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { migrate, readMigrations } from '../../src/postgres/migrate.ts'
import { MIGRATIONS } from '../../src/postgres/migrations/migrations.ts'
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
    /^drop trigger if exists "(payment_variance_guard|payment_variance_kept|variance_transaction_guard|unmatched_payment_guard)"/,
    /^drop trigger if exists "(payout_\w+|refund_guard)"/,
    /^drop view if exists "(money_event|sequencer)"/,
    /^drop function if exists "/,
    // PostgreSQL stores BETWEEN as two comparisons.
    /^alter table "webhook_endpoint" (drop|add) constraint "webhook_endpoint_concurrency"/,
  ]
  expect(statements.filter((each) => !known.some((pattern) => pattern.test(each)))).toEqual([])
})

test('every migration states which versions work with the schema after it', async () => {
  const names = MIGRATIONS.map(({ name }) => name)
  expect(names).toEqual(names.toSorted())
  for (const [index, { name, worksSince }] of MIGRATIONS.entries()) {
    expect(names.slice(0, index + 1), name).toContain(worksSince)
  }
  const applied = await readMigrations(db.database)
  expect(applied.map(({ name, worksSince }) => ({ name, worksSince }))).toEqual(
    MIGRATIONS.map(({ name, worksSince }) => ({ name, worksSince })),
  )
})

test('every change of an entity has a migration', async () => {
  expect(await db.database.orm.migrator.checkSchema()).toBe(false)
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
