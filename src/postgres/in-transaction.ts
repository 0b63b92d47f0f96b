import type { Pool, PoolClient } from 'pg'
import type { Logger } from 'pino'

/** Runs statements: a pool, or a client in a transaction. */
export type Queryable = Pick<PoolClient, 'query'>

/** Runs statements in one transaction: commits when `run` resolves, rolls back when it rejects. */
export async function inTransaction<T>(
  pool: Pool,
  run: (client: PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('begin')
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

/** Does the work that follows a commit. The commit stands, so an error is only logged. */
export function afterCommit(log: Logger, action: () => void): void {
  try {
    action()
  } catch (error) {
    log.error({ err: error }, 'work after a commit failed; the commit stands')
  }
}
