import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { migrate, readMigrations, requireSchema, SchemaError } from '../../src/postgres/migrate.ts'
import { INITIAL, MIGRATIONS } from '../../src/postgres/migrations/migrations.ts'
import { type Database, openDatabase } from '../../src/postgres/orm.ts'
import { createTestDatabase } from '../support/database.ts'
import { waitFor } from '../support/wait-for.ts'
import { NEXT, openNext } from './next-release.ts'

const NAMES = MIGRATIONS.map(({ name }) => name)

async function open(): Promise<{ url: string; database: Database }> {
  const made = await createTestDatabase()
  const database = await openDatabase(made.url, ENTITIES, { connectionsMax: 2 })
  onTestFinished(async () => {
    await database.close()
    await made.drop()
  })
  return { url: made.url, database }
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

test('a migration that waits for a lock lets payments through, and is repeated until it succeeds', async () => {
  const { url, database } = await open()
  const next = await openNext(url, database)
  const reader = await connect(url)
  await reader.query('begin')
  await reader.query('select from business')
  const attempts: string[] = []
  const waits = { timeoutMs: 200, attemptsMax: 1_000, pause: { minMs: 5, maxMs: 10 } }
  const migrating = migrate(next, { ...waits, onRetry: (reason) => void attempts.push(reason) })
  const writer = await connect(url)
  // The lock of each attempt ends, although the reader goes on.
  for (let write = 0; write < 3; write++) {
    const before = attempts.length
    await waitFor(() => expect(attempts.length).toBeGreaterThan(before))
    await writer.query(
      `insert into business (id, name, alias, created_at) values ('biz_${write}', 'x', 'x', now())`,
    )
  }
  await reader.query('commit')
  expect(await migrating).toEqual([NEXT])
  expect(attempts[0]).toBe('a migration did not get its locks: attempt 2')
  expect((await writer.query('select extra from business')).rowCount).toBe(3)
})

test('a migration that never gets its locks gives up, and states what to do', async () => {
  const { url, database } = await open()
  const next = await openNext(url, database)
  const reader = await connect(url)
  await reader.query('begin')
  await reader.query('select from business')
  const waits = { timeoutMs: 20, attemptsMax: 3, pause: { minMs: 1, maxMs: 1 } }
  await expect(migrate(next, waits)).rejects.toThrow(
    new SchemaError(
      'a migration did not get its locks in 3 attempts: end long transactions (pg_stat_activity), or migrate at a quieter time',
    ),
  )
  const found = await readMigrations(next)
  expect(found.map(({ name, appliedAt }) => [name, appliedAt !== undefined])).toEqual([
    ...NAMES.map((name) => [name, true]),
    [NEXT, false],
  ])
})

test('an older release refuses the schema of a newer one, and a newer one that of an older', async () => {
  const { url, database } = await open()
  const next = await openNext(url, database)
  await requireSchema(database)
  await expect(requireSchema(next)).rejects.toThrow(
    `migrations are pending (${NEXT}): run \`inflow migrate up\``,
  )
  expect(await migrate(next)).toEqual([NEXT])
  await requireSchema(next)
  const newer = `the schema is newer than this version of Inflow (${NEXT}): start the newer version`
  await expect(requireSchema(database)).rejects.toThrow(newer)
  await expect(migrate(database)).rejects.toThrow(newer)
})

test('an older release starts with the schema of a newer one that only added to it', async () => {
  const { url, database } = await open()
  const next = await openNext(url, database, INITIAL)
  const pending = await readMigrations(next)
  expect(pending.at(-1)).toMatchObject({ name: NEXT, appliedAt: undefined, worksSince: INITIAL })
  expect(await migrate(next)).toEqual([NEXT])
  await requireSchema(database)
  expect(await migrate(database)).toEqual([])
  const found = await readMigrations(database)
  expect(found.at(-1)).toMatchObject({ name: NEXT, known: false, worksSince: INITIAL })
})

test('a release whose own migrations are pending is refused by a schema with unknown ones', async () => {
  const { url, database } = await open()
  const next = await openNext(url, database, INITIAL)
  await database.durablePool.query(
    'insert into schema_migration (name, works_since) values ($1, $2)',
    ['Migration20991230000000_other', INITIAL],
  )
  await expect(migrate(next)).rejects.toThrow(/schema is newer than this version .*_other/)
})
