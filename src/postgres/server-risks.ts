import type { Pool } from 'pg'
import { readForeignSettings } from './session.ts'

/** A setting of the server that may lose acknowledged payments, change results, or make the service slow. */
interface ServerRisk {
  /** `fail`: the crash of one machine can lose payments, or the service does not start. */
  readonly level: 'warn' | 'fail'
  readonly found: string
  /** How to remove the risk, if possible as a statement. */
  readonly advice: string
}

/** Reads the risks of the server's current settings. The start logs them, and `doctor` reports them. */
export async function readServerRisks(pool: Pick<Pool, 'query'>): Promise<readonly ServerRisk[]> {
  return [
    ...(await readSettingRisks(pool)),
    ...(await readCommitRisks(pool)),
    ...(await readSessionRisks(pool)),
  ]
}

interface SettingRow {
  readonly fsync: string
  readonly full_page_writes: string
  readonly autovacuum: string
  readonly track_counts: string
  readonly shared_buffers: string
  readonly shared_buffers_bytes: string
  readonly max_wal_size: string
  readonly max_wal_size_bytes: string
  readonly logs_statements: boolean
}

const READ_SERVER = `select current_setting('fsync') as fsync,
    current_setting('full_page_writes') as full_page_writes,
    current_setting('autovacuum') as autovacuum,
    current_setting('track_counts') as track_counts,
    current_setting('shared_buffers') as shared_buffers,
    pg_size_bytes(current_setting('shared_buffers')) as shared_buffers_bytes,
    current_setting('max_wal_size') as max_wal_size,
    pg_size_bytes(current_setting('max_wal_size')) as max_wal_size_bytes,
    current_setting('log_statement') in ('all', 'mod') or current_setting('log_duration') = 'on'
      or current_setting('log_min_duration_statement') in ('0', '0ms') as logs_statements`

/** PostgreSQL's default. No server needs less. */
const SHARED_BUFFERS_MIN_BYTES = 128n * 1024n ** 2n
/** PostgreSQL's default. A payment writes 3 kB of log, so this is a checkpoint every 350,000 payments. */
const WAL_SIZE_MIN_BYTES = 1024n ** 3n

/** Settings of the whole server, which no session can override. */
async function readSettingRisks(pool: Pick<Pool, 'query'>): Promise<readonly ServerRisk[]> {
  const { rows } = await pool.query<SettingRow>(READ_SERVER)
  const row = rows[0] as SettingRow
  const risks: ServerRisk[] = []
  const set = (statement: string, then = 'select pg_reload_conf()') => `${statement}; ${then}`
  for (const name of ['fsync', 'full_page_writes'] as const) {
    if (row[name] === 'on') continue
    const found = `${name} is off: a power failure may lose or corrupt acknowledged payments`
    risks.push({ level: 'fail', found, advice: set(`alter system set ${name} = on`) })
  }
  const slow = (found: string, advice: string) => void risks.push({ level: 'warn', found, advice })
  for (const name of ['autovacuum', 'track_counts'] as const) {
    if (row[name] === 'on') continue
    slow(
      `${name} is off: dead rows stay, statistics age, and every statement becomes slower`,
      set(`alter system set ${name} = on`),
    )
  }
  if (BigInt(row.shared_buffers_bytes) < SHARED_BUFFERS_MIN_BYTES) {
    slow(
      `shared_buffers is ${row.shared_buffers}: payments read from disk what memory could hold`,
      set("alter system set shared_buffers = '128MB'", 'restart the server'),
    )
  }
  if (BigInt(row.max_wal_size_bytes) < WAL_SIZE_MIN_BYTES) {
    slow(
      `max_wal_size is ${row.max_wal_size}: checkpoints follow each other under load, and each doubles what a payment writes`,
      set("alter system set max_wal_size = '2GB'"),
    )
  }
  if (row.logs_statements) {
    slow(
      'the server logs every statement, which costs more than most of them',
      'reset log_statement, log_duration and log_min_duration_statement with alter system, then select pg_reload_conf()',
    )
  }
  return risks
}

/** Settings that our sessions request but do not have, for example behind a pooler that drops start-up options. */
async function readSessionRisks(pool: Pick<Pool, 'query'>): Promise<readonly ServerRisk[]> {
  const foreign = await readForeignSettings(pool)
  if (foreign.length === 0) return []
  const values = foreign.map(({ name, value }) => `${name} is ${value}`).join(', ')
  const isRequired = foreign.some((setting) => setting.isRequired)
  return [
    {
      level: isRequired ? 'fail' : 'warn',
      found: `something between the service and the server drops the settings of its sessions: ${values}`,
      advice: foreign.map(({ statement }) => statement).join('; '),
    },
  ]
}

interface CommitRow {
  readonly commit: string
  readonly names: string
  /** Null: the role cannot see the standbys. */
  readonly standbys: number | null
  readonly synchronous: number
  /** Whether the role can see the state of standbys. */
  readonly visible: boolean
}

const SETTINGS = `current_setting('synchronous_commit') as commit,
    current_setting('synchronous_standby_names') as names`

// A role without pg_monitor sees the rows with nulls. The state `backup` is a running pg_basebackup.
const READ = `select ${SETTINGS},
    count(pid) filter (where state is distinct from 'backup')::int as standbys,
    count(*) filter (where sync_state in ('sync', 'quorum'))::int as synchronous,
    coalesce(bool_and(state is not null), true) as visible
  from pg_stat_replication`

/** The statement for a role that cannot read pg_stat_replication, as on some hardened servers. */
const READ_SETTINGS = `select ${SETTINGS}, null as standbys, 0 as synchronous, false as visible`

/** SQLSTATE insufficient_privilege */
const FORBIDDEN = '42501'

const COMMIT_ADVICE = 'alter role … reset synchronous_commit, or set it to on in postgresql.conf'

/** The levels weaker than `on`. Sessions set `on` themselves, so they have another level only behind a pooler. */
const WEAK: Readonly<Record<string, Omit<ServerRisk, 'advice'>>> = {
  off: {
    level: 'fail',
    found: 'synchronous_commit is off: a crash may lose the latest acknowledged payments',
  },
  local: {
    level: 'warn',
    found: 'synchronous_commit is local: a failover may lose the latest acknowledged payments',
  },
  remote_write: {
    level: 'warn',
    found:
      'synchronous_commit is remote_write: a failover to a standby that crashed too may lose the latest acknowledged payments',
  },
}

/** Reads whether a crash or a failover may lose acknowledged commits. */
async function readCommitRisks(pool: Pick<Pool, 'query'>): Promise<readonly ServerRisk[]> {
  const { rows } = await pool.query<CommitRow>(READ).catch((error: { code?: string }) => {
    if (error.code !== FORBIDDEN) throw error
    return pool.query<CommitRow>(READ_SETTINGS)
  })
  const { commit, names, standbys, synchronous, visible } = rows[0] as CommitRow
  const risks: ServerRisk[] = []
  const weak = WEAK[commit]
  if (weak) risks.push({ ...weak, advice: COMMIT_ADVICE })
  if (standbys === 0 || synchronous > 0) return risks
  const unknown = standbys === null || (names !== '' && !visible)
  risks.push({
    level: 'warn',
    found: unknown
      ? 'the role may not see whether a standby is synchronous'
      : `standbys are connected (${standbys}) and none is synchronous: a failover may lose the latest acknowledged payments`,
    advice: unknown
      ? 'grant pg_monitor to the role of DATABASE_URL'
      : 'set synchronous_standby_names: operations.md states what each choice may lose',
  })
  return risks
}
