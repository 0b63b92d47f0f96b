import type { Pool } from 'pg'
import { listInstances, type RunningInstance } from '../crypto/key-heartbeat.ts'
import { type Migration, readMigrations } from '../postgres/migrate.ts'
import type { Database } from '../postgres/orm.ts'
import { createFindings, type Finding } from './finding.ts'

/** Longer transactions are reported: a migration waits two seconds for each lock, and retries for about three minutes. */
const LONG_SECONDS = 5
const TOO_LONG_SECONDS = 60

/** A standby that is further behind is reported: a failover would lose more, or commits wait for longer. */
const LAG_MAX_BYTES = 64 * 1024 ** 2

type Findings = ReturnType<typeof createFindings>

/**
 * Checks whether this version can replace the running instances one after the other: which versions run, whether they work
 * with the pending migrations, which transactions would block the migrations, and the lag of standbys.
 *
 * @param version the version of Inflow that runs this check
 */
export async function checkUpgrade(
  database: Database,
  version: string,
): Promise<readonly Finding[]> {
  const findings = createFindings('Upgrade')
  const migrations = await readMigrations(database)
  // An empty database needs no upgrade.
  if (migrations.every(({ appliedAt }) => appliedAt === undefined)) return findings.all
  const pending = migrations.filter(({ appliedAt }) => appliedAt === undefined)
  const instances = await listInstances(database.orm)
  reportInstances(instances, findings)
  for (const migration of pending) reportMigration(migration, instances, findings)
  if (pending.length > 0) await reportBlockers(database, findings)
  await reportStandbys(database, findings)
  const waits = findings.all.some(({ level }) => level === 'fail')
  if (waits) {
    findings.fail(`the upgrade to version ${version} must wait`, 'see the findings above')
  } else if (pending.length > 0) {
    findings.ok(`the upgrade to version ${version} may go ahead: start one instance of it`)
  } else findings.ok(`instances of version ${version} may start: no migration is pending`)
  return findings.all
}

function reportInstances(instances: readonly RunningInstance[], findings: Findings): void {
  if (instances.length === 0) {
    findings.ok('no instance runs')
    return
  }
  for (const [version, own] of Map.groupBy(instances, (each) => each.version)) {
    findings.ok(`version ${version} runs in ${processesOf(own)}`)
  }
}

function reportMigration(
  { name, worksSince }: Migration,
  instances: readonly RunningInstance[],
  findings: Findings,
): void {
  // Names begin with the time, so they sort in the order of the migrations.
  const ended = instances.filter(({ migration }) => migration < worksSince)
  if (ended.length === 0) {
    const kind = worksSince < name ? 'expand' : 'contract'
    findings.ok(`${name} is pending (${kind}): all running instances can work with it`)
    return
  }
  findings.fail(
    `${name} is pending (contract): ${processesOf(ended)} cannot work with it`,
    `upgrade these to a version that knows ${worksSince} first; if this is that version, stop them before it starts`,
  )
}

async function reportBlockers({ durablePool }: Database, findings: Findings): Promise<void> {
  const long = await listLongTransactions(durablePool, LONG_SECONDS)
  for (const { pid, user, application, seconds } of long) {
    const who = [user, application].filter((text) => text !== '').join(', ')
    const found = `a transaction of ${who} (pid ${pid}) has held locks for ${Math.round(seconds)} s, for which migrations wait`
    const advice = `let it end, or: select pg_terminate_backend(${pid})`
    if (seconds > TOO_LONG_SECONDS) findings.fail(found, advice)
    else findings.warn(found, advice)
  }
  for (const gid of await listPreparedTransactions(durablePool)) {
    const advice = 'commit prepared, or rollback prepared'
    findings.fail(`the prepared transaction ${gid} keeps its locks`, advice)
  }
  if (long.length === 0) findings.ok('no long transaction would block a migration')
}

async function reportStandbys({ durablePool }: Database, findings: Findings): Promise<void> {
  const bytes = await standbyLagBytes(durablePool)
  if (bytes === undefined || bytes <= LAG_MAX_BYTES) return
  findings.warn(
    `a standby is ${Math.round(bytes / 1024 ** 2)} MB behind`,
    'wait until it has caught up: a migration adds to it',
  )
}

function processesOf(instances: readonly RunningInstance[]): string {
  const names = instances.map(({ process }) => process).sort()
  const shown = names.slice(0, 10).join(', ')
  const unit = names.length === 1 ? 'process' : 'processes'
  return `${names.length} ${unit} (${shown}${names.length > 10 ? ', …' : ''})`
}

/** A transaction that holds locks on tables, for which a migration has to wait. */
interface LongTransaction {
  readonly pid: number
  /** The role that runs the transaction. */
  readonly user: string
  readonly application: string
  readonly seconds: number
}

/** The most transactions that are listed. */
const LISTED_MAX = 5

/**
 * Lists transactions in this database that have held locks on its tables for longer than `seconds`, the
 * oldest first. Vacuums are left out, because PostgreSQL cancels them for a migration. The transactions of other roles are
 * visible only with `pg_monitor`.
 */
async function listLongTransactions(
  pool: Pool,
  seconds: number,
): Promise<readonly LongTransaction[]> {
  const { rows } = await pool.query<LongTransaction>(
    `select a.pid, coalesce(a.usename, '') as user, coalesce(a.application_name, '') as application,
        extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds
      from pg_stat_activity a
      where a.datname = current_database() and a.pid <> pg_backend_pid()
        and a.backend_type = 'client backend'
        and a.xact_start < clock_timestamp() - $1 * interval '1 second'
        and exists (select from pg_locks l join pg_class c on c.oid = l.relation
          where l.pid = a.pid and l.granted and c.relnamespace = 'public'::regnamespace)
      order by a.xact_start limit $2`,
    [seconds, LISTED_MAX],
  )
  return rows
}

/** The names of prepared transactions, which keep their locks until an operator ends them. */
async function listPreparedTransactions(pool: Pool): Promise<readonly string[]> {
  const { rows } = await pool.query<{ gid: string }>(
    'select gid from pg_prepared_xacts where database = current_database() order by prepared limit $1',
    [LISTED_MAX],
  )
  return rows.map(({ gid }) => gid)
}

/** The lag of the slowest standby in bytes; undefined: no standby is connected, or the role cannot see any. */
async function standbyLagBytes(pool: Pool): Promise<number | undefined> {
  const { rows } = await pool.query<{ bytes: number | null }>(
    `select max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn))::float8 as bytes
      from pg_stat_replication`,
  )
  return rows[0]?.bytes ?? undefined
}
