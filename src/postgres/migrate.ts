import { setTimeout as delay } from 'node:timers/promises'
import { backoffMs } from '../core/backoff.ts'
import { INITIAL, type SqlMigration } from './migrations/migrations.ts'
import type { Database } from './orm.ts'

/** Thrown if this version of Inflow cannot work with the schema. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
}

/** An applied or a pending migration. */
export interface Migration {
  readonly name: string
  /** Undefined: the migration is pending. */
  readonly appliedAt: Date | undefined
  /** Whether this version of Inflow contains the migration. */
  readonly known: boolean
  /** The migration that a version must know to work with the schema afterwards: see `SqlMigration`. */
  readonly worksSince: string
}

/** How a migration waits for its locks. */
interface LockWaits {
  /**
   * The lock time-out, in milliseconds. Payments queue behind a migration that waits for a lock. Longer than deadlock_timeout
   * (1 s), after which PostgreSQL cancels an autovacuum that holds the lock.
   */
  readonly timeoutMs: number
  readonly attemptsMax: number
  /** The pause between attempts, during which waiting payments are recorded. */
  readonly pause: { readonly minMs: number; readonly maxMs: number }
  /** Called before each further attempt, with one line that states the reason. */
  readonly onRetry: (reason: string) => void
}

const LOCK_WAITS: LockWaits = {
  timeoutMs: 2_000,
  attemptsMax: 20,
  pause: { minMs: 1_000, maxMs: 10_000 },
  onRetry: () => undefined,
}

/** How long an instance waits while another instance migrates. It holds no other lock while it waits. */
const OTHER_INSTANCE = '10min'

/** The advisory lock of the migrating instance: any number not used elsewhere. */
const MIGRATION_LOCK = 4_736_351

/** SQLSTATE lock_not_available, and deadlock_detected. */
const LOCKED = ['55P03', '40P01']

/**
 * Migrates the schema; one instance at a time.
 *
 * @returns the migrations that ran
 * @throws SchemaError if this version cannot migrate the schema, or does not get its locks
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
    // Migrating a large table takes long.
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
 * Requires that the schema has every migration of this version, and that this version can work with it. An older version can
 * work with a newer schema until a migration ends its support. So instances of two versions can serve during an upgrade, and
 * an upgrade can be rolled back.
 *
 * @throws SchemaError
 */
export async function requireSchema(database: Database): Promise<void> {
  const migrations = await readMigrations(database)
  const pending = migrations.filter(({ appliedAt }) => appliedAt === undefined)
  refuseNewer(migrations, pending)
  if (pending.length > 0) {
    throw new SchemaError(`migrations are pending (${namesOf(pending)}): run \`inflow migrate up\``)
  }
}

/** Returns the applied and the pending migrations. */
export function readMigrations({ orm, durablePool }: Database): Promise<readonly Migration[]> {
  return listMigrations(orm, async (sql) => (await durablePool.query(sql)).rows)
}

/**
 * Selects one row: `newer`, whether the schema has a migration that this version does not know, and
 * `ended`, whether this version can no longer work with the schema.
 */
export function newerSchemaQuery(orm: Database['orm']): { text: string; values: unknown[] } {
  const text = `select count(*) > 0 as newer,
      count(*) filter (where coalesce(works_since, name) <> all($1)) > 0 as ended
    from schema_migration where name <> all($1)`
  return { text, values: [knownOf(orm).map(({ name }) => name)] }
}

/** The newest migration that this version knows. */
export function newestMigration(orm: Database['orm']): string {
  return knownOf(orm).at(-1)?.name ?? INITIAL
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
  // Pending migrations cannot be applied to a schema with unknown ones, because their order is undefined.
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
  const [found] = (await run("select to_regclass('schema_migration') is not null as is")) as {
    is: boolean
  }[]
  const rows = found?.is
    ? ((await run(
        'select name, executed_at, works_since from schema_migration order by id',
      )) as Row[])
    : []
  const known = knownOf(orm)
  const applied = rows.map(({ name, executed_at: at, works_since: since }) => ({
    name,
    appliedAt: new Date(at),
    known: known.some((each) => each.name === name),
    worksSince: since ?? name,
  }))
  const pending = known
    .filter(({ name }) => !rows.some((row) => row.name === name))
    .map(({ name, worksSince }) => ({ name, appliedAt: undefined, known: true, worksSince }))
  return [...applied, ...pending]
}

/** The migrations of this version, oldest first. */
function knownOf(orm: Database['orm']): readonly SqlMigration[] {
  return (orm.config.get('migrations').migrationsList ?? []) as SqlMigration[]
}

function namesOf(migrations: readonly Migration[]): string {
  return migrations.map(({ name }) => name).join(', ')
}
