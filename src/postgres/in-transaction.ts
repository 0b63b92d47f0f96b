import type { Pool, PoolClient } from 'pg'
import type { Logger } from 'pino'

/** Runs statements: a pool, or a client in a transaction. */
export type Queryable = Pick<PoolClient, 'query'>

/**
 * Begins a transaction in which PostgreSQL plans each prepared statement once, and never as a scan of a table that was small
 * then. Otherwise it may plan a statement anew for each execution, for as long as its tables grow, because it compares the
 * costs with those of the first plans.
 */
export const KEEPING_PLANS =
  'begin; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off; set local jit = off'

/**
 * Runs statements in one transaction: commits when `run` resolves, rolls back when it rejects.
 *
 * @param begin `KEEPING_PLANS` for prepared statements that run often
 */
export async function inTransaction<T>(
  pool: Pool,
  run: (client: PoolClient) => Promise<T>,
  begin = 'begin',
): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query(begin)
    const result = await run(client)
    await client.query('commit')
    client.release()
    return result
  } catch (error) {
    // If the rollback fails, the connection is closed, which ends the transaction.
    await client.query('rollback').then(
      () => client.release(),
      () => client.release(true),
    )
    throw error
  }
}

/** Runs an action after a commit. The commit cannot be undone, so an error is only logged. */
export function afterCommit(log: Logger, action: () => void): void {
  try {
    action()
  } catch (error) {
    log.error({ err: error }, 'work after a commit failed; the commit stands')
  }
}
