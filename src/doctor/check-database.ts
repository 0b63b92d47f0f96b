import pg, { type Pool } from 'pg'
import type { Config } from '../config/config.ts'
import { replicaName } from '../config/service-settings.ts'
import { HOUR_MS } from '../core/durations.ts'
import { LOGGED_TIMELINE } from '../events/log-state.ts'
import { leavesWorking, type Migration, readMigrations } from '../postgres/migrate.ts'
import { secondsAhead } from '../postgres/next-cut.ts'
import { connectionsOfService, type Database } from '../postgres/orm.ts'
import { AHEAD_WARN_SECONDS } from '../postgres/partition-job.ts'
import { type PartitionedTable, readTableState } from '../postgres/partitions.ts'
import { readArchiver } from '../postgres/server-metrics.ts'
import { readServerRisks } from '../postgres/server-risks.ts'
import {
  type PrimaryState,
  readPrimary,
  readReplica,
  replicaFault,
  selectReplica,
} from '../postgres/server-state.ts'
import { countOverdue } from '../settlement/overdue.ts'
import { createFindings, type Finding } from './finding.ts'

/** The oldest version of PostgreSQL that the service supports. */
const VERSION_MIN = 150_000

const SKEW_WARN_MS = 1_000
const SKEW_FAIL_MS = 30_000

/** A transaction that is open for longer prevents the removal of dead rows, and delays the event log. */
const OPEN_WARN_SECONDS = 300

type Findings = ReturnType<typeof createFindings>

/** Checks the server: version, settings that cost durability or speed, connections, clock, long transactions and schema. */
export async function checkDatabase(
  database: Database,
  now: () => number,
  config: Pick<Config, 'workers' | 'databasePoolSize'>,
): Promise<readonly Finding[]> {
  const { durablePool } = database
  const findings = createFindings('Database')
  const settings = await checkServer(database, findings)
  checkConnections(settings, config, findings)
  await checkClock(durablePool, now, findings)
  if (settings.open_seconds > OPEN_WARN_SECONDS) {
    findings.warn(
      `a transaction has been open for ${Math.round(settings.open_seconds)} s`,
      'find it in pg_stat_activity, and end it with pg_terminate_backend',
    )
  }
  await checkSchema(database, findings)
  return findings.all
}

/** Checks whether the server of DATABASE_URL archives its log. */
export async function checkArchiver(pool: Pool): Promise<readonly Finding[]> {
  const findings = createFindings('Backups')
  const archiver = await readArchiver(pool)
  if (archiver === undefined || !archiver.enabled) {
    findings.warn(
      'the server does not archive its log (archive_mode is off), so it cannot be restored to a point in time',
      'archive it and make base backups (Backups in the guide to operations), unless it is backed up in another way',
    )
  } else if (archiver.failing) {
    findings.warn(
      `the server cannot archive its log: ${archiver.lastFailedSegment}, ${archiver.failures} failures`,
      "correct archive_command (see the server's log): WAL fills the disk, and a restore ends where archiving failed",
    )
  } else {
    const { lastArchivedMs } = archiver
    const at = lastArchivedMs === undefined ? 'none yet' : new Date(lastArchivedMs).toISOString()
    findings.ok(`the server archives its log; its last segment: ${at}`)
  }
  return findings.all
}

async function checkSchema(database: Database, findings: Findings): Promise<void> {
  const migrations = await readMigrations(database)
  const names = (of: readonly Migration[]) => of.map(({ name }) => name).join(', ')
  const pending = migrations.filter(({ appliedAt }) => appliedAt === undefined)
  const unknown = migrations.filter(({ known }) => !known)
  const ending = unknown.filter((migration) => !leavesWorking(migration, migrations))
  if (ending.length > 0) {
    const found = `the schema is newer than this version of Inflow: ${names(ending)}`
    findings.fail(found, 'this version does not start, and is not ready: use the newer one')
  } else if (unknown.length > 0) {
    const found = `the schema is of a newer version, with which this one works: ${names(unknown)}`
    findings.warn(found, 'finish the upgrade')
  } else if (pending.length > 0) {
    const advice = 'start the service, or: inflow migrate up'
    findings.warn(`migrations are pending: ${names(pending)}`, advice)
  } else findings.ok('the schema is up to date')
}

interface Settings {
  version: number
  version_text: string
  standby: boolean
  synchronous_commit: string
  timezone: string
  max_connections: number
  used: number
  open_seconds: number
  standby_waits: number
}

async function readSettings(pool: Pool): Promise<Settings> {
  const result = await pool.query<Settings>(
    `select current_setting('server_version_num')::int as version,
      current_setting('server_version') as version_text,
      pg_is_in_recovery() as standby,
      current_setting('synchronous_commit') as synchronous_commit,
      current_setting('TimeZone') as timezone,
      current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int as max_connections,
      (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used,
      (select count(*)::int from pg_stat_activity where wait_event = 'SyncRep') as standby_waits,
      (select coalesce(max(extract(epoch from now() - xact_start)), 0)::float8
        from pg_stat_activity where pid <> pg_backend_pid()
          and backend_type = 'client backend') as open_seconds`,
  )
  return result.rows[0] as Settings
}

async function checkServer({ durablePool, url }: Database, findings: Findings): Promise<Settings> {
  const settings = await readSettings(durablePool)
  const server = `PostgreSQL ${settings.version_text} at ${new URL(url).host}`
  if (settings.version < VERSION_MIN) {
    findings.fail(`${server} is too old`, 'use PostgreSQL 15 or newer')
  } else if (settings.standby) {
    const advice = 'set DATABASE_URL to the primary'
    findings.fail(`${server} is a standby, which accepts no writes`, advice)
  } else findings.ok(`${server} is reachable; its time zone is ${settings.timezone}`)
  const risks = await readServerRisks(durablePool)
  for (const { level, found, advice } of risks) findings[level](found, advice)
  if (risks.length === 0) {
    const commit = settings.synchronous_commit
    findings.ok(`commits are durable: fsync and full_page_writes on, synchronous_commit ${commit}`)
    findings.ok('no setting of the server makes the service slow')
  }
  return settings
}

function checkConnections(
  { max_connections: max, used, standby_waits: waits }: Settings,
  { workers, databasePoolSize }: Pick<Config, 'workers' | 'databasePoolSize'>,
  findings: Findings,
): void {
  if (waits > 0) {
    findings.warn(
      `${waits} connections wait for a synchronous standby`,
      'start the standby, or change synchronous_standby_names',
    )
  }
  const needed = connectionsOfService(workers, databasePoolSize)
  const instance = workers === 1 ? 'an instance' : `an instance with ${workers} workers`
  const found = `${used} of ${max} connections are in use; ${instance} needs up to ${needed}`
  if (max < needed) {
    findings.fail(found, `set max_connections to at least ${needed + 10}`)
  } else if (max - used < needed) {
    findings.warn(found, 'raise max_connections before another instance starts')
  } else findings.ok(found)
}

async function checkClock(pool: Pool, now: () => number, findings: Findings): Promise<void> {
  const beforeMs = now()
  const result = await pool.query<{ ms: number }>(
    'select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms',
  )
  const afterMs = now()
  const halfMs = (afterMs - beforeMs) / 2
  const skewMs = Math.abs((result.rows[0]?.ms ?? 0) - beforeMs - halfMs)
  // The error of the measurement is at most half of the round trip.
  const skewMinMs = Math.max(0, skewMs - halfMs)
  const found = `the clock of the database differs by ${skewMinMs < 1 ? 'less than 1' : skewMinMs.toFixed(0)} ms`
  const advice = 'synchronize the clocks of both machines with NTP (chrony, systemd-timesyncd)'
  if (skewMinMs > SKEW_FAIL_MS) findings.fail(found, advice)
  else if (skewMinMs > SKEW_WARN_MS) findings.warn(found, advice)
  else findings.ok(found)
}

const HOUR_SECONDS = 3_600

/** Checks that partitions are created before rows need them. */
export async function checkPartitions(
  pool: Pool,
  tables: readonly PartitionedTable[],
  nowMs: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Database')
  const late: string[] = []
  for (const table of tables) {
    const ahead = secondsAhead(table, await readTableState(pool, table, nowMs))
    if (ahead >= AHEAD_WARN_SECONDS) continue
    late.push(`${table.table} (${Math.floor(ahead / HOUR_SECONDS)} hours left)`)
  }
  if (late.length === 0) findings.ok('partitions are made ahead')
  else {
    findings.warn(
      `partitions are not made ahead: ${late.join(', ')}`,
      'check that an instance runs, and end transactions that have been open for hours (pg_stat_activity)',
    )
  }
  return findings.all
}

/** Due settlements complete within seconds; a million payments take minutes. */
const LATE_MS = HOUR_MS

/** Checks whether due settlements have completed. */
export async function checkSettlement(
  database: Database,
  nowMs: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Settlement')
  const overdue = await countOverdue(database, nowMs - LATE_MS)
  const advice =
    'check that an instance runs, and its log for settlement errors; then: inflow ledger verify'
  const late = [
    [overdue.balances, 'businesses have been due for settlement'],
    [overdue.settlements, 'settlements have been running'],
    [overdue.requests, 'settlement requests have been in progress'],
  ] as const
  for (const [count, found] of late) {
    if (count > 0) findings.warn(`${count} ${found} for more than an hour`, advice)
  }
  if (findings.all.length === 0) findings.ok('no settlement is overdue')
  return findings.all
}

const TIMEOUT_MS = 5_000

/** A replica that is further behind does not catch up within the time that a read waits. */
const BEHIND_MAX_BYTES = 16 * 1024 ** 2

/** Checks that each server of DATABASE_READ_URLS follows the primary. */
export async function checkReplicas(
  pool: Pool,
  urls: readonly string[],
): Promise<readonly Finding[]> {
  const findings = createFindings('Database')
  if (urls.length === 0) return findings.all
  const primary = await readPrimary(pool, TIMEOUT_MS)
  const checks = urls.map(async (url) => ({ url, ...(await checkReplica(url, primary)) }))
  for (const { url, state, advice } of await Promise.all(checks)) {
    const text = `the replica ${replicaName(url)} ${state}`
    if (advice === undefined) findings.ok(text)
    else findings.warn(`${text}: reads go to the primary`, advice)
  }
  return findings.all
}

interface Found {
  readonly state: string
  /** Undefined: reads go to the replica. */
  readonly advice?: string
}

async function checkReplica(url: string, primary: PrimaryState): Promise<Found> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: TIMEOUT_MS })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const replica = await readReplica(client, selectReplica(LOGGED_TIMELINE), TIMEOUT_MS)
    const fault = replicaFault(replica, primary)
    if (fault !== undefined) {
      const advice = 'make it a standby of the primary, or remove it from DATABASE_READ_URLS'
      return { state: `is not used, because ${fault}`, advice }
    }
    const bytes = Number(primary.bytes - (replica.bytes ?? 0n))
    if (bytes <= BEHIND_MAX_BYTES) return { state: 'follows the primary' }
    const megabytes = Math.round(bytes / 1024 ** 2)
    return { state: `is ${megabytes} MB behind`, advice: 'find out why it replays the log slowly' }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return { state: `cannot be read (${message || code})`, advice: 'start it, or check the URL' }
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** The database of a first start. */
export interface NewDatabase {
  readonly findings: readonly Finding[]
  /** Names of the pending migrations. */
  readonly pending: readonly string[]
  /** Whether the role can run the migrations. */
  readonly mayMigrate: boolean
  readonly role: string
}

interface NewDatabaseRow {
  readonly role: string
  readonly encoding: string
  /** Null: the role cannot use any schema of its search path. */
  readonly schema: string | null
  readonly tables: number
  readonly may_create: boolean
  /** Null: the schema has no tables. */
  readonly owns: boolean | null
  /** Whether the role can write to the tables, except those that only functions change. */
  readonly may_write: boolean | null
}

const READ_NEW_DATABASE = `with tables as (
      select oid, relowner from pg_class
        where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
    )
  select current_user as role, current_setting('server_encoding') as encoding,
    current_schema() as schema,
    (select count(*)::int from tables) as tables,
    coalesce(has_schema_privilege(current_schema(), 'create'), false) as may_create,
    (select bool_and(pg_has_role(relowner, 'usage')) from tables) as owns,
    (select bool_or(has_table_privilege(oid, 'insert')) from tables) as may_write`

/** Checks whether a first start can use the database: server, durability, encoding, content and rights. */
export async function checkNewDatabase(database: Database): Promise<NewDatabase> {
  const findings = createFindings('Database')
  await checkServer(database, findings)
  const { rows } = await database.durablePool.query<NewDatabaseRow>(READ_NEW_DATABASE)
  const { role, encoding, schema, tables, may_create, owns, may_write } = rows[0] as NewDatabaseRow
  if (schema === null) {
    const advice = `grant usage, create on schema public to ${role}`
    findings.fail(`the role ${role} cannot use any schema of this database`, advice)
    return { findings: findings.all, pending: [], mayMigrate: false, role }
  }
  if (encoding === 'UTF8') findings.ok('texts are stored as UTF-8')
  else {
    findings.fail(
      `the encoding of the database is ${encoding}: names of customers would be refused`,
      "create it anew: create database … encoding 'UTF8' template template0",
    )
  }
  const migrations = await readMigrations(database)
  const applied = migrations.filter(({ appliedAt }) => appliedAt !== undefined)
  const pending = migrations.filter(({ appliedAt }) => appliedAt === undefined)
  if (applied.length === 0 && tables > 0) {
    findings.fail(
      `the schema ${schema} has ${tables} tables that do not belong to Inflow`,
      'use a database of its own',
    )
  } else if (applied.length === 0) findings.ok('the database is empty')
  else if (applied.some((each) => !each.known && !leavesWorking(each, migrations))) {
    findings.fail('the schema is newer than this version of Inflow', 'use the newer version')
  } else findings.ok('the database belongs to Inflow')
  if (may_write === false) {
    const advice = 'grant them: see "Two database roles" in operations.md'
    findings.fail(`the role ${role} may not write to the tables`, advice)
  }
  return {
    findings: findings.all,
    pending: pending.map(({ name }) => name),
    mayMigrate: owns ?? may_create,
    role,
  }
}
