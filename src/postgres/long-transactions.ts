import type { Pool } from 'pg'

/** A transaction that holds locks of tables, which a migration has to wait for. */
export interface LongTransaction {
  readonly pid: number
  /** Who runs it. */
  readonly user: string
  readonly application: string
  readonly seconds: number
}

/** How many are listed. */
const LISTED_MAX = 5

/**
 * Lists transactions in this database that have held locks of its tables for longer than `seconds`, the
 * oldest first. Vacuums give way to a migration by themselves. Transactions of other users are seen only with
 * `pg_monitor`.
 */
export async function listLongTransactions(
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

/** The names of prepared transactions, which keep their locks until they are ended by hand. */
export async function listPreparedTransactions(pool: Pool): Promise<readonly string[]> {
  const { rows } = await pool.query<{ gid: string }>(
    'select gid from pg_prepared_xacts where database = current_database() order by prepared limit $1',
    [LISTED_MAX],
  )
  return rows.map(({ gid }) => gid)
}

/** How far the standby that is furthest behind is, in bytes; undefined: none is connected, or none is shown. */
export async function standbyLagBytes(pool: Pool): Promise<number | undefined> {
  const { rows } = await pool.query<{ bytes: number | null }>(
    `select max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn))::float8 as bytes
      from pg_stat_replication`,
  )
  return rows[0]?.bytes ?? undefined
}
