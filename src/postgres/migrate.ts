import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { backoffMs } from '../core/backoff.ts'
import type { Database } from './orm.ts'

/** The schema is not the one that this version of Inflow needs. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
}

/** An applied or a pending migration. */
export interface Migration {
  readonly name: string
  /** Undefined: it is pending. */
  readonly appliedAt: Date | undefined
  /** Whether this version of Inflow has it. */
  readonly known: boolean
  /** Versions that know this migration can work with the schema after it: see `readWorksSince`. */
  readonly worksSince: string
}

/** How a migration waits for its locks. */
interface LockWaits {
  /**
   * For each lock. Payments queue behind a migration that waits. Longer than deadlock_timeout (1 s),
   * after which PostgreSQL cancels an autovacuum that is in the way.
   */
  readonly timeoutMs: number
  readonly attemptsMax: number
  /** The pause between attempts, in which payments catch up. */
  readonly pause: { readonly minMs: number; readonly maxMs: number }
  /** Called before each further attempt, with one line that states why. */
  readonly onRetry: (reason: string) => void
}

const LOCK_WAITS: LockWaits = {
  timeoutMs: 2_000,
  attemptsMax: 20,
  pause: { minMs: 1_000, maxMs: 10_000 },
  onRetry: () => undefined,
}

/** How long an instance waits for another one that migrates. It holds no other lock meanwhile. */
const OTHER_INSTANCE = '10min'

/** The advisory lock of the migrating instance: any number not used elsewhere. */
const MIGRATION_LOCK = 4_736_351

/** The migration of the first release, which every database of a released version has. */
const INITIAL = 'Migration20261122000000_initial'

/** SQLSTATE lock_not_available, and deadlock_detected. */
const LOCKED = ['55P03', '40P01']

/**
 * Migrates the schema; one instance at a time.
 *
 * @returns the migrations that ran
 * @throws SchemaError when this version cannot migrate the schema, or does not get its locks
 */
export async function migrate(
  database: Database,
  given: Partial<LockWaits> = {},
): Promise<readonly string[]> {
  const waits = { ...LOCK_WAITS, ...given }
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptMigration(database, waits.timeoutMs)
    } catch (cause) {
      if (!LOCKED.includes((cause as { code?: string }).code ?? '')) throw cause
      if (attempt === waits.attemptsMax) {
        const text = `a migration did not get its locks in ${attempt} attempts: end long transactions (pg_stat_activity), or migrate at a quieter time`
        throw new SchemaError(text, { cause })
      }
    }
    await delay(backoffMs(attempt, waits.pause, Math.random))
    waits.onRetry(`a migration did not get its locks: attempt ${attempt + 1}`)
  }
}

async function attemptMigration(
  { orm }: Database,
  lockTimeoutMs: number,
): Promise<readonly string[]> {
  const connection = orm.em.getConnection()
  const ran = await connection.transactional(async (transaction) => {
    const run = (sql: string) => connection.execute(sql, [], 'all', transaction)
    // Large tables take long.
    await run('set local statement_timeout = 0')
    await run(`set local lock_timeout = '${OTHER_INSTANCE}'`)
    await run(`select pg_advisory_xact_lock(${MIGRATION_LOCK})`)
    await run(`set local lock_timeout = ${lockTimeoutMs}`)
    const migrations = await listMigrations(orm, run)
    const pending = migrations.filter(({ appliedAt }) => appliedAt === undefined)
    refuseNewer(migrations, pending)
    if (pending.length === 0) return []
    const applied = await orm.migrator.up({ transaction })
    for (const { name, worksSince } of pending) {
      const text = 'update schema_migration set works_since = ? where name = ?'
      await connection.execute(text, [worksSince, name], 'run', transaction)
    }
    return applied
  })
  return ran.map(({ name }) => name)
}

/**
 * Throws SchemaError unless the schema has every migration of this version, and this version can work with
 * it. An older version can, until the schema has a migration that ends it: so instances of two versions
 * can serve while an upgrade replaces one by the other, and an upgrade can be taken back.
 */
export async function requireSchema(database: Database): Promise<void> {
  const migrations = await readMigrations(database)
  const pending = migrations.filter(({ appliedAt }) => appliedAt === undefined)
  refuseNewer(migrations, pending)
  if (pending.length > 0) {
    throw new SchemaError(`migrations are pending (${namesOf(pending)}): run \`inflow migrate up\``)
  }
}

/** The applied and the pending migrations. Changes nothing. */
export function readMigrations({ orm, durablePool }: Database): Promise<readonly Migration[]> {
  return listMigrations(orm, async (sql) => (await durablePool.query(sql)).rows)
}

/**
 * Selects one row: `newer`, whether the schema has a migration that this version does not know, and
 * `ended`, whether this version cannot work with the schema any more.
 */
export function newerSchemaQuery(orm: Database['orm']): { text: string; values: unknown[] } {
  const text = `select count(*) > 0 as newer,
      count(*) filter (where coalesce(works_since, name) <> all($1)) > 0 as ended
    from schema_migration where name <> all($1)`
  return { text, values: [namesInFolder(orm)] }
}

/** The newest migration that this version knows. */
export function newestMigration(orm: Database['orm']): string {
  return namesInFolder(orm).at(-1) ?? INITIAL
}

/** Whether this version can work with the schema after a migration of a newer version. */
export function leavesWorking(migration: Migration, all: readonly Migration[]): boolean {
  return all.some(({ name, known }) => known && name === migration.worksSince)
}

function refuseNewer(migrations: readonly Migration[], pending: readonly Migration[]): void {
  const unknown = migrations.filter(({ known }) => !known)
  if (unknown.length === 0) return
  if (!migrations.some(({ name, appliedAt }) => name === INITIAL && appliedAt !== undefined)) {
    throw new SchemaError(
      'the database was made by an unreleased version of Inflow and cannot be migrated: use an empty database',
    )
  }
  const ending = unknown.filter((migration) => !leavesWorking(migration, migrations))
  // Migrations of two versions that do not know each other have no order.
  const refused = pending.length > 0 ? unknown : ending
  if (refused.length === 0) return
  throw new SchemaError(
    `the schema is newer than this version of Inflow (${namesOf(refused)}): start the newer version`,
  )
}

interface Row {
  readonly name: string
  readonly executed_at: Date
  readonly works_since: string | null
}

async function listMigrations(
  orm: Database['orm'],
  run: (sql: string) => Promise<unknown[]>,
): Promise<readonly Migration[]> {
  const known = namesInFolder(orm)
  const [found] = (await run("select to_regclass('schema_migration') is not null as is")) as {
    is: boolean
  }[]
  const rows = found?.is
    ? ((await run(
        'select name, executed_at, works_since from schema_migration order by id',
      )) as Row[])
    : []
  const applied = rows.map(({ name, executed_at: at, works_since: since }) => ({
    name,
    appliedAt: new Date(at),
    known: known.includes(name),
    worksSince: since ?? name,
  }))
  const names = known.filter((name) => !rows.some((row) => row.name === name))
  const pending = names.map(async (name) => ({
    name,
    appliedAt: undefined,
    known: true,
    worksSince: await readWorksSince(folderOf(orm), name),
  }))
  return [...applied, ...(await Promise.all(pending))]
}

function namesInFolder(orm: Database['orm']): readonly string[] {
  const files = readdirSync(folderOf(orm)).filter((file) => /^Migration.*\.ts$/.test(file))
  return files.map((file) => file.replace(/\.ts$/, '')).sort()
}

function folderOf(orm: Database['orm']): string {
  return orm.config.get('migrations').path ?? ''
}

function namesOf(migrations: readonly Migration[]): string {
  return migrations.map(({ name }) => name).join(', ')
}

/**
 * Which versions can work with the schema after a migration: versions that know this migration, or a later
 * one. A migration that only adds states the oldest version that it leaves working, one that removes
 * something states the migration of the release that stopped using it:
 *
 *     static readonly worksSince = 'Migration20261122000000_initial'
 *
 * A migration that states nothing ends all versions that do not know it.
 *
 * @returns the name of a migration
 */
async function readWorksSince(folder: string, name: string): Promise<string> {
  const url = pathToFileURL(join(folder, `${name}.ts`)).href
  const { [name]: migration } = (await import(url)) as Record<string, { worksSince?: string }>
  return migration?.worksSince ?? name
}
