import {
  DatabaseError,
  type Pool,
  type QueryConfig,
  type QueryResult,
  type QueryResultRow,
} from 'pg'
import { isRetryable } from './is-retryable.ts'

/**
 * Runs a statement that may be refused. `pool.query` closes its connection at any error; this keeps
 * it if only the statement is at fault, so that halving a batch opens no connections.
 */
export async function runStatement<Row extends QueryResultRow>(
  pool: Pool,
  statement: QueryConfig,
): Promise<QueryResult<Row>> {
  const client = await pool.connect()
  // A lost connection rejects the statement; the event must not crash the process.
  client.on('error', ignore)
  let isUsable = true
  try {
    return await client.query<Row>(statement)
  } catch (error) {
    isUsable = error instanceof DatabaseError && !isRetryable(error)
    throw error
  } finally {
    if (isUsable) client.off('error', ignore)
    client.release(!isUsable)
  }
}

function ignore(): void {}
