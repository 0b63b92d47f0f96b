import { listInstances, type RunningInstance } from '../crypto/key-heartbeat.ts'
import {
  listLongTransactions,
  listPreparedTransactions,
  standbyLagBytes,
} from '../postgres/long-transactions.ts'
import { type Migration, readMigrations } from '../postgres/migrate.ts'
import type { Database } from '../postgres/orm.ts'
import { createFindings, type Finding } from './finding.ts'

/** A migration waits two seconds for each lock, and repeats for about three minutes. */
const LONG_SECONDS = 5
const TOO_LONG_SECONDS = 60

/** A standby that is further behind loses more in a failover, or keeps commits waiting. */
const LAG_MAX_BYTES = 64 * 1024 ** 2

type Findings = ReturnType<typeof createFindings>

/**
 * Checks whether the instances that run may be replaced by this version, one after the other: what runs,
 * what its migrations leave working, what would block their locks, and the standbys.
 *
 * @param version of Inflow that runs this check
 */
export async function checkUpgrade(
  database: Database,
  version: string,
): Promise<readonly Finding[]> {
  const findings = createFindings('Upgrade')
  const migrations = await readMigrations(database)
  // An empty database has nothing to upgrade.
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
  // Names begin with the time, so they sort as the migrations do.
  const ended = instances.filter(({ migration }) => migration < worksSince)
  if (ended.length === 0) {
    const kind = worksSince < name ? 'expand' : 'contract'
    findings.ok(`${name} is pending (${kind}): no instance that runs is ended by it`)
    return
  }
  findings.fail(
    `${name} is pending (contract): it ends what runs in ${processesOf(ended)}`,
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
