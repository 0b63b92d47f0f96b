import type { Pool } from 'pg'
import type { Registry } from 'prom-client'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import { DEADLINES } from './client.ts'
import type { Queryable } from './in-transaction.ts'

/** The state of the database server. */
interface Server {
  readonly inRecovery: number
  readonly timeline: number | null
  readonly connections: number
  readonly connectionsMax: number
  readonly standbyWaits: number
  readonly frozenXidAge: number
  readonly oldestTransactionSeconds: number
  readonly requiresStandby: number
}

/** The standbys of one `sync_state`. */
interface Standbys {
  readonly syncState: string
  readonly count: number
  readonly lagSeconds: number
  readonly lagBytes: number
}

/** `unknown`: the role cannot see the state without pg_monitor. */
const SYNC_STATES = ['sync', 'quorum', 'potential', 'async', 'unknown'] as const

/** SQLSTATE insufficient_privilege */
const FORBIDDEN = '42501'

/** Registers metrics of the database server, its replication and its archiving. They read only system views. */
export function registerDatabaseMetrics(metrics: Registry, pool: Pool): void {
  registerSampledGauges(metrics, () => readServer(pool), [
    {
      name: 'inflow_db_in_recovery',
      help: 'Whether the server of DATABASE_URL is a standby, which accepts no payments.',
      measure: ({ inRecovery }) => inRecovery,
    },
    {
      name: 'inflow_db_timeline',
      help: 'Timeline of the database server; it rises with each promotion of a standby.',
      measure: ({ timeline }) => timeline ?? undefined,
    },
    {
      name: 'inflow_db_connections',
      help: 'Connections to the database server, of all clients.',
      measure: ({ connections }) => connections,
    },
    {
      name: 'inflow_db_connections_max',
      help: 'The most connections that the database server accepts from ordinary roles.',
      measure: ({ connectionsMax }) => connectionsMax,
    },
    {
      name: 'inflow_db_oldest_transaction_seconds',
      help: 'Age of the oldest open transaction that the role may see.',
      measure: ({ oldestTransactionSeconds }) => oldestTransactionSeconds,
    },
    {
      name: 'inflow_db_frozen_xid_age',
      help: 'Age of the oldest transaction id that is not frozen; at two billion the server refuses writes.',
      measure: ({ frozenXidAge }) => frozenXidAge,
    },
    {
      name: 'inflow_db_synchronous_standby_required',
      help: 'Whether commits wait for a synchronous standby: synchronous_standby_names is set.',
      measure: ({ requiresStandby }) => requiresStandby,
    },
    {
      name: 'inflow_db_standby_waits',
      help: 'Commits that wait for a synchronous standby now.',
      measure: ({ standbyWaits }) => standbyWaits,
    },
  ])
  const most = (standbys: readonly Standbys[], of: (each: Standbys) => number) =>
    Math.max(0, ...standbys.map(of))
  registerSampledGauges(metrics, () => readStandbys(pool), [
    {
      name: 'inflow_db_standbys',
      help: 'Connected standbys of the database server; unknown: the role may not see whether they are synchronous.',
      labelNames: ['sync_state'],
      measure: (standbys) =>
        SYNC_STATES.map((state) => ({
          labels: { sync_state: state },
          value: standbys.find(({ syncState }) => syncState === state)?.count ?? 0,
        })),
    },
    {
      name: 'inflow_db_standby_lag_seconds',
      help: 'How long the slowest standby takes to replay what the primary wrote.',
      measure: (standbys) => most(standbys, ({ lagSeconds }) => lagSeconds),
    },
    {
      name: 'inflow_db_standby_lag_bytes',
      help: 'How much of the log of the primary the slowest standby has not replayed.',
      measure: (standbys) => most(standbys, ({ lagBytes }) => lagBytes),
    },
  ])
  registerSampledGauges(metrics, () => readArchiver(pool), [
    {
      name: 'inflow_wal_archive_failing',
      help: '1 while the latest attempt of the database server to archive its log failed, else 0.',
      measure: (archiver) => archiver && (archiver.failing ? 1 : 0),
    },
  ])
}

async function readServer(pool: Pool): Promise<Server> {
  // Every role can see `numbackends`, but not the rows of other roles in pg_stat_activity.
  const { rows } = await pool.query<Server>({
    name: 'server-state',
    query_timeout: DEADLINES.hot,
    text: `select pg_is_in_recovery()::int as "inRecovery",
        case when not pg_is_in_recovery() then
          ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer end as timeline,
        (select sum(numbackends)::int from pg_stat_database) as connections,
        current_setting('max_connections')::int
          - current_setting('superuser_reserved_connections')::int as "connectionsMax",
        (select count(*)::int from pg_stat_activity where wait_event = 'SyncRep') as "standbyWaits",
        (select max(age(datfrozenxid)) from pg_database) as "frozenXidAge",
        (select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::float8
          from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid())
          as "oldestTransactionSeconds",
        (current_setting('synchronous_standby_names') <> '')::int as "requiresStandby"`,
  })
  return rows[0] as Server
}

async function readStandbys(pool: Pool): Promise<readonly Standbys[]> {
  try {
    const { rows } = await pool.query<Standbys>({
      name: 'server-standbys',
      query_timeout: DEADLINES.hot,
      text: `select coalesce(sync_state, 'unknown') as "syncState", count(*)::int as count,
          coalesce(extract(epoch from max(replay_lag)), 0)::float8 as "lagSeconds",
          coalesce(max(case when not pg_is_in_recovery()
            then pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) end), 0)::float8 as "lagBytes"
        from pg_stat_replication where state is distinct from 'backup' group by 1`,
    })
    return rows
  } catch (error) {
    if ((error as { code?: unknown }).code === FORBIDDEN) return []
    throw error
  }
}

/** The state of WAL archiving, from `archive_mode` and `pg_stat_archiver`, which every role can read. */
interface Archiver {
  readonly enabled: boolean
  /** Whether the latest attempt to archive failed. */
  readonly failing: boolean
  readonly failures: number
  readonly lastFailedSegment: string | undefined
  readonly lastArchivedMs: number | undefined
}

export async function readArchiver(pool: Queryable): Promise<Archiver | undefined> {
  const { rows } = await pool.query<{
    enabled: boolean
    failing: boolean
    failures: string
    last_failed_wal: string | null
    last_archived_ms: number | null
  }>(
    `select current_setting('archive_mode') <> 'off' as enabled, failed_count as failures,
      last_failed_time is not null
        and (last_archived_time is null or last_failed_time > last_archived_time) as failing,
      last_failed_wal, round(date_part('epoch', last_archived_time) * 1000) as last_archived_ms
      from pg_stat_archiver`,
  )
  const [row] = rows
  return (
    row && {
      enabled: row.enabled,
      failing: row.enabled && row.failing,
      failures: Number(row.failures),
      lastFailedSegment: row.last_failed_wal ?? undefined,
      lastArchivedMs: row.last_archived_ms ?? undefined,
    }
  )
}
