import type { Queryable } from '../in-transaction.ts'

/** How far the primary's write-ahead log has come. */
export interface PrimaryState {
  /** Every commit that was acknowledged or visible is before this byte of the log. */
  readonly bytes: bigint
  readonly timeline: number
  readonly systemIdentifier: string
}

/** A server that may be a replica of the primary. */
export interface ReplicaState {
  /** False: it was promoted, or never was a standby. */
  readonly isStandby: boolean
  /** What it has replayed of the log; null if it is not a standby. */
  readonly bytes: bigint | null
  readonly systemIdentifier: string
  /** The timeline of its last checkpoint, which may be an earlier one than it replays. */
  readonly checkpointTimeline: number
  /** The timeline that the primary was on when it last wrote it into the database. */
  readonly loggedTimeline: number | null
}

/**
 * Reads how far the primary has come. A commit is acknowledged, and visible to others, once it is
 * flushed; without `synchronous_commit` it may be so before.
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
 * @param loggedTimeline SQL that selects it
 */
export function selectReplica(loggedTimeline: string): string {
  return `select pg_is_in_recovery() as "isStandby",
      pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') as bytes, c.system_identifier as "systemIdentifier",
      k.timeline_id as "checkpointTimeline",
      (${loggedTimeline}) as "loggedTimeline"
    from pg_control_system() c, pg_control_checkpoint() k`
}

/** @param text ends with what `selectReplica` returns */
export async function readReplica(
  client: Queryable,
  text: string,
  timeoutMs: number,
): Promise<ReplicaState> {
  const result = await client.query<Texts<ReplicaState>>({ text, query_timeout: timeoutMs })
  // The driver returns an array of results if the text has several statements.
  const row = [result].flat().at(-1)?.rows[0] as Texts<ReplicaState>
  return { ...row, bytes: row.bytes === null ? null : BigInt(row.bytes) }
}

/**
 * Why a server is no replica of the primary; undefined: it is one, and its bytes of the log are the
 * primary's. The logged timeline shows that it has replayed what the primary wrote since the last
 * failover, that of the checkpoint that it has not replayed the log of yet another one.
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

/** The driver returns numbers of 64 bits as text. */
type Texts<State> = {
  readonly [Name in keyof State]: State[Name] extends bigint
    ? string
    : State[Name] extends bigint | null
      ? string | null
      : State[Name]
}
