import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { inTransaction, type Queryable } from '../../src/postgres/in-transaction.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { type Database, openDatabase } from '../../src/postgres/orm.ts'

const TEMPLATE = 'inflow_template'

function urlOf(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

/** Runs statements on a connection of their own, one after another. @returns the rows of the last one */
export async function query<Row = Record<string, unknown>>(
  url: string,
  ...texts: string[]
): Promise<Row[]> {
  // A connection that breaks fails the statement, and is no event of its own.
  const client = new pg.Client({ connectionString: url }).on('error', () => undefined)
  await client.connect()
  try {
    let rows: Row[] = []
    for (const text of texts) rows = (await client.query(text)).rows
    return rows
  } finally {
    // The server may have stopped meanwhile.
    await client.end().catch(() => undefined)
  }
}

/** Gives a database settings for its later sessions. */
export async function setForDatabase(url: string, settings: Readonly<Record<string, string>>) {
  const name = new URL(url).pathname.slice(1)
  const each = ([setting, value]: string[]) => `alter database ${name} set ${setting} = '${value}'`
  await query(url, ...Object.entries(settings).map(each))
}

const administer = (serverUrl: string, ...statements: string[]) =>
  query<{ name: string }>(urlOf(serverUrl, 'postgres'), ...statements)

/** Creates the template database. @returns its URL */
export async function createTemplate(serverUrl: string): Promise<string> {
  // A given server may have that of a run that was killed.
  await administer(
    serverUrl,
    `drop database if exists ${TEMPLATE} with (force)`,
    `create database ${TEMPLATE}`,
  )
  return urlOf(serverUrl, TEMPLATE)
}

/** Drops the databases that test files share until their worker ends, for a server that runs on after the tests. */
export async function dropTestDatabases(serverUrl: string): Promise<void> {
  const databases = await administer(
    serverUrl,
    "select datname as name from pg_database where datname ~ '^test_[0-9a-f]{12}$'",
  )
  await administer(serverUrl, ...databases.map(({ name }) => `drop database ${name} with (force)`))
}

/** Clones the template. */
export async function createTestDatabase(
  serverUrl: string = inject('serverUrl'),
): Promise<{ url: string; drop(): Promise<void> }> {
  const name = `test_${randomBytes(6).toString('hex')}`
  await administer(serverUrl, `create database ${name} template ${TEMPLATE} strategy file_copy`)
  return {
    url: urlOf(serverUrl, name),
    drop: async () => {
      await administer(serverUrl, `drop database ${name} with (force)`)
    },
  }
}

/** Creates a database without tables, for a test. @param options of `create database` @returns its URL */
export async function emptyDatabase(options = ''): Promise<string> {
  const name = `empty_${randomBytes(6).toString('hex')}`
  const server = inject('serverUrl')
  await query(server, `create database ${name} ${options}`)
  onTestFinished(async () => void (await query(server, `drop database ${name} with (force)`)))
  return urlOf(server, name)
}

/** Migrates a database. */
export async function migrated(url: string): Promise<void> {
  const database = await openDatabase(url, ENTITIES, { connectionsMax: 2 })
  await migrate(database)
  await database.close()
}

/**
 * Changes rows as a superuser, without triggers and foreign keys.
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

/** Runs a transaction as a superuser, without triggers and foreign keys. */
export async function tampering<T>(
  pool: pg.Pool,
  run: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  return inTransaction(pool, async (client) => {
    await client.query("set local session_replication_role = 'replica'")
    return run(client)
  })
}

/** Runs with a transaction that stays open meanwhile. It is rolled back, unless the run ends it. */
export async function withOpenTransaction<T>(
  pool: pg.Pool,
  run: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    return await run(client)
  } finally {
    await client.query('rollback')
    client.release()
  }
}

/** How many connections of the database wait for a lock, of a kind or a table if one is named. */
export async function lockWaits(pool: Queryable, of?: string): Promise<number> {
  const { rowCount } = await pool.query(
    `select from pg_locks join pg_stat_activity using (pid) where datname = current_database()
      and not granted and ($1::text is null or $1 in (locktype, relation::regclass::text))`,
    [of],
  )
  return rowCount!
}

/**
 * A migrated database for the tests of one file, opened before them and dropped after them.
 * `url` and `database` may be read from inside tests and hooks.
 *
 * @param prepare changes the database before it is opened
 */
export function useDatabase(
  connectionsMax = 16,
  prepare: (url: string) => Promise<unknown> = async () => undefined,
): {
  readonly url: string
  readonly database: Database
} {
  let made: Awaited<ReturnType<typeof createTestDatabase>>
  let database: Database
  beforeAll(async () => {
    made = await createTestDatabase()
    await prepare(made.url)
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
