import { readdirSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
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
    refuseUnknown(migrations)
    if (migrations.every(({ appliedAt }) => appliedAt !== undefined)) return []
    return orm.migrator.up({ transaction })
  })
  return ran.map(({ name }) => name)
}

/** Throws SchemaError unless the schema has every migration of this version, and no other. */
export async function requireSchema(database: Database): Promise<void> {
  const migrations = await readMigrations(database)
  refuseUnknown(migrations)
  const pending = migrations.filter(({ appliedAt }) => appliedAt === undefined)
  if (pending.length > 0) {
    throw new SchemaError(`migrations are pending (${namesOf(pending)}): run \`inflow migrate up\``)
  }
}

/** The applied and the pending migrations. Changes nothing. */
export function readMigrations({ orm, pool }: Database): Promise<readonly Migration[]> {
  return listMigrations(orm, async (sql) => (await pool.query(sql)).rows)
}

/** Finds a row if the schema has a migration that this version does not know. */
export function newerSchemaQuery(orm: Database['orm']): { text: string; values: unknown[] } {
  const text = 'select from schema_migration where name <> all($1) limit 1'
  return { text, values: [namesInFolder(orm)] }
}

function refuseUnknown(migrations: readonly Migration[]): void {
  const unknown = migrations.filter(({ known }) => !known)
  if (unknown.length === 0) return
  throw new SchemaError(
    migrations.some(({ name, appliedAt }) => name === INITIAL && appliedAt !== undefined)
      ? `the schema is newer than this version of Inflow (${namesOf(unknown)}): start the newer version`
      : 'the database was made by an unreleased version of Inflow and cannot be migrated: use an empty database',
  )
}

type Row = { readonly name: string; readonly executed_at: Date }

async function listMigrations(
  orm: Database['orm'],
  run: (sql: string) => Promise<unknown[]>,
): Promise<readonly Migration[]> {
  const known = namesInFolder(orm)
  const [found] = (await run("select to_regclass('schema_migration') is not null as is")) as {
    is: boolean
  }[]
  const rows = found?.is
    ? ((await run('select name, executed_at from schema_migration order by id')) as Row[])
    : []
  const applied = rows.map(({ name, executed_at: at }) => ({
    name,
    appliedAt: new Date(at),
    known: known.includes(name),
  }))
  const pending = known.filter((name) => !rows.some((row) => row.name === name))
  return [...applied, ...pending.map((name) => ({ name, appliedAt: undefined, known: true }))]
}

function namesInFolder(orm: Database['orm']): readonly string[] {
  const { path = '' } = orm.config.get('migrations')
  const files = readdirSync(path).filter((file) => /^Migration.*\.ts$/.test(file))
  return files.map((file) => file.replace(/\.ts$/, '')).sort()
}

function namesOf(migrations: readonly Migration[]): string {
  return migrations.map(({ name }) => name).join(', ')
}
