import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { type Database, openDatabase } from '../../src/postgres/orm.ts'

const TEMPLATE = 'inflow_template'

function urlOf(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

async function administer(serverUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: urlOf(serverUrl, 'postgres') })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

/** Creates the template database. @returns its URL */
export async function createTemplate(serverUrl: string): Promise<string> {
  // A given server may have that of a run that was killed.
  await administer(serverUrl, `drop database if exists ${TEMPLATE} with (force)`)
  await administer(serverUrl, `create database ${TEMPLATE}`)
  return urlOf(serverUrl, TEMPLATE)
}

/** Drops the databases that files share until their worker ends. For a server that goes on after the run. */
export async function dropTestDatabases(serverUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: urlOf(serverUrl, 'postgres') })
  await client.connect()
  try {
    const { rows } = await client.query<{ name: string }>(
      "select datname as name from pg_database where datname ~ '^test_[0-9a-f]{12}$'",
    )
    for (const { name } of rows) await client.query(`drop database ${name} with (force)`)
  } finally {
    await client.end()
  }
}

/** Clones the template. */
export async function createTestDatabase(
  serverUrl: string = inject('serverUrl'),
): Promise<{ url: string; drop(): Promise<void> }> {
  const name = `test_${randomBytes(6).toString('hex')}`
  await administer(serverUrl, `create database ${name} template ${TEMPLATE} strategy file_copy`)
  return {
    url: urlOf(serverUrl, name),
    drop: () => administer(serverUrl, `drop database ${name} with (force)`),
  }
}

/**
 * Changes rows past every trigger and foreign key, as a superuser can.
 *
 * @returns how many rows it changed
 */
export async function tamper(
  pool: pg.Pool,
  text: string,
  values: readonly unknown[] = [],
): Promise<number> {
  return tampering(pool, async (client) => (await client.query(text, [...values])).rowCount ?? 0)
}

/** Runs one transaction past every trigger and foreign key, as a superuser can. */
export async function tampering<T>(
  pool: pg.Pool,
  run: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  return inTransaction(pool, async (client) => {
    await client.query("set local session_replication_role = 'replica'")
    return run(client)
  })
}

/**
 * A migrated database for the tests of one file, opened before them and dropped after them.
 * `url` and `database` may be read from inside tests and hooks.
 */
export function useDatabase(connectionsMax = 16): {
  readonly url: string
  readonly database: Database
} {
  let made: Awaited<ReturnType<typeof createTestDatabase>>
  let database: Database
  beforeAll(async () => {
    made = await createTestDatabase()
    database = await openDatabase(made.url, ENTITIES, { connectionsMax })
  })
  afterAll(async () => {
    await database?.close()
    await made?.drop()
  })
  return {
    get url() {
      return made.url
    },
    get database() {
      return database
    },
  }
}
