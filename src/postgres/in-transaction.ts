import type { Pool, PoolClient } from 'pg'

/** What runs statements: a pool, or a client in a transaction. */
export type Queryable = Pick<PoolClient, 'query'>

/** Runs statements in one transaction: committed when `run` resolves, undone when it rejects. */
export async function inTransaction<T>(
  pool: Pool,
  run: (client: PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  // A connection that is lost while nobody queries it must not end the process.
  client.on('error', ignore)
  try {
    await client.query('begin')
    const result = await run(client)
    await client.query('commit')
    giveBack(client)
    return result
  } catch (error) {
    // Where even that fails, the connection goes, and the transaction with it.
    await client.query('rollback').then(
      () => giveBack(client),
      () => client.release(true),
    )
    throw error
  }
}

function giveBack(client: PoolClient): void {
  client.off('error', ignore)
  client.release()
}

function ignore(): void {}
