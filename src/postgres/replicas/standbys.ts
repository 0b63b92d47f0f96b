import type { Queryable } from '../in-transaction.ts'

/** A standby that is connected to the server. */
export interface Standby {
  readonly name: string
  readonly state: string
  readonly syncState: string
  /** How long it takes to replay what was written, in milliseconds. */
  readonly replayLagMs: number
}

/** SQLSTATE insufficient_privilege */
const FORBIDDEN = '42501'

/** The standbys of a server that the role may see: without pg_monitor none. */
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

/** The version of the server, and how long it took to answer, in milliseconds. */
export async function readServerVersion(on: Queryable) {
  const startMs = performance.now()
  const { rows } = await on.query<{ version: string }>({
    name: 'server-version',
    text: "select current_setting('server_version') as version",
  })
  return { version: rows[0]?.version ?? '', latencyMs: performance.now() - startMs }
}
