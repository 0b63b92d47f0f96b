import type { Queryable } from './in-transaction.ts'

/** The position of the primary in its write-ahead log. */
export interface PrimaryState {
  /** Every acknowledged or visible commit is before this byte of the log. */
  readonly bytes: bigint
  readonly timeline: number
  readonly systemIdentifier: string
}

/** A server that may be a replica of the primary. */
export interface ReplicaState {
  /** False: the server was promoted, or never was a standby. */
  readonly isStandby: boolean
  /** The position up to which the log is replayed; null if the server is not a standby. */
  readonly bytes: bigint | null
  readonly systemIdentifier: string
  /** The timeline of the last checkpoint, which may be earlier than the timeline that the server replays. */
  readonly checkpointTimeline: number
  /** The timeline that the primary last wrote into the database. */
  readonly loggedTimeline: number | null
}

/**
 * Reads the position of the primary. A commit is acknowledged, and visible to others, after it is
 * flushed, or without `synchronous_commit` perhaps before.
 */
export async function readPrimary(pool: Queryable, timeoutMs: number): Promise<PrimaryState> {
  const { rows } = await pool.query<Texts<PrimaryState>>({
    name: 'replicas-primary',
    query_timeout: timeoutMs,
    text: `select c.timeline, c.system_identifier as "systemIdentifier",
        pg_wal_lsn_diff(case when current_setting('synchronous_commit') = 'off'
          then pg_current_wal_insert_lsn() else pg_current_wal_flush_lsn() end, '0/0') as bytes
      from current_cluster() c`,
  })
  const row = rows[0] as Texts<PrimaryState>
  return { ...row, bytes: BigInt(row.bytes) }
}

/**
 * SQL that reads the state of a replica.
 *
 * @param loggedTimeline SQL that selects the timeline that the primary wrote into the database
 */
export function selectReplica(loggedTimeline: string): string {
  return `select pg_is_in_recovery() as "isStandby",
      pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') as bytes, c.system_identifier as "systemIdentifier",
      k.timeline_id as "checkpointTimeline",
      (${loggedTimeline}) as "loggedTimeline"
    from pg_control_system() c, pg_control_checkpoint() k`
}

/** @param text SQL that ends with the result of `selectReplica` */
export async function readReplica(
  client: Queryable,
  text: string,
  timeoutMs: number,
): Promise<ReplicaState> {
  const result = await client.query<Texts<ReplicaState>>({ text, query_timeout: timeoutMs })
  // If the text has several statements, the driver returns an array of results.
  const row = [result].flat().at(-1)?.rows[0] as Texts<ReplicaState>
  return { ...row, bytes: row.bytes === null ? null : BigInt(row.bytes) }
}

/**
 * Returns why a server is not a replica of the primary; undefined: it is, and positions in their logs are comparable. The
 * logged timeline shows that it has replayed writes of the primary since the last failover; the timeline of the checkpoint
 * shows that it does not replay the log of a later one.
 */
export function replicaFault(replica: ReplicaState, primary: PrimaryState): string | undefined {
  const { timeline } = primary
  if (replica.systemIdentifier !== primary.systemIdentifier) return 'it belongs to another cluster'
  if (!replica.isStandby || replica.bytes === null) return 'it is not a standby'
  if (replica.loggedTimeline !== timeline || replica.checkpointTimeline > timeline) {
    return `it does not follow the primary on timeline ${timeline}`
  }
  return undefined
}

/** The driver returns 64-bit numbers as text. */
type Texts<State> = {
  readonly [Name in keyof State]: State[Name] extends bigint
    ? string
    : State[Name] extends bigint | null
      ? string | null
      : State[Name]
}

/** A standby that is connected to the server. */
export interface Standby {
  readonly name: string
  readonly state: string
  readonly syncState: string
  /** How long the standby takes to replay new log, in milliseconds. */
  readonly replayLagMs: number
}

/** SQLSTATE insufficient_privilege */
const FORBIDDEN = '42501'

/** Lists the standbys that the role can see; without pg_monitor none. */
export async function listStandbys(on: Queryable, limit: number): Promise<readonly Standby[]> {
  try {
    const { rows } = await on.query<Standby>(
      `select application_name as name, state, sync_state as "syncState",
          coalesce(extract(epoch from replay_lag) * 1000, 0)::float8 as "replayLagMs"
        from pg_stat_replication where state is not null and state <> 'backup'
        order by application_name limit $1`,
      [limit],
    )
    return rows
  } catch (error) {
    if ((error as { code?: unknown }).code === FORBIDDEN) return []
    throw error
  }
}

/** Returns the version of the server, and its response time in milliseconds. */
export async function readServerVersion(on: Queryable) {
  const startMs = performance.now()
  const { rows } = await on.query<{ version: string }>({
    name: 'server-version',
    text: "select current_setting('server_version') as version",
  })
  return { version: rows[0]?.version ?? '', latencyMs: performance.now() - startMs }
}

/** A replica that does not respond within this time is not used. */
export const REPLICA_TIMEOUT_MS = 1_000
