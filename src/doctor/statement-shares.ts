import pg from 'pg'

/** Statements that are named: these take nearly all of the time. */
const STATEMENTS_MAX = 10
const TEXT_MAX = 80

/** The extension is not in the database, or not among `shared_preload_libraries`. */
const ABSENT = ['42P01', '55000']

/**
 * What the database has spent its time on since its statistics were reset, the largest share first. Without the
 * extension `pg_stat_statements` one line that says so.
 */
export async function findStatementShares(pool: pg.Pool): Promise<readonly string[]> {
  try {
    const { rows } = await pool.query<{ share: number; calls: string; ms: number; text: string }>(
      `select sum(total_exec_time) / sum(sum(total_exec_time)) over () * 100 as share, sum(calls) as calls,
          sum(total_exec_time) / sum(calls) as ms, left(regexp_replace(query, '[[:space:]]+', ' ', 'g'), $1) as text
        from pg_stat_statements
        where dbid = (select oid from pg_database where datname = current_database())
        group by query order by share desc limit $2`,
      [TEXT_MAX, STATEMENTS_MAX],
    )
    return rows.map(
      ({ share, calls, ms, text }) =>
        `${share.toFixed(1)} % of the database's time: ${calls} calls of ${ms.toFixed(2)} ms, ${text}`,
    )
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && ABSENT.includes(error.code ?? ''))) throw error
    return ['the shares of the statements are unknown: the database has no pg_stat_statements']
  }
}
