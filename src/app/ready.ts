import { shareResult } from '../core/shared-result.ts'
import { withTimeout } from '../core/with-timeout.ts'
import { isLogCurrent } from '../events/log-state.ts'
import type { BatchWatch } from '../postgres/batch-watch.ts'
import { newerSchemaQuery } from '../postgres/migrate.ts'
import type { Database } from '../postgres/orm.ts'

/** An orchestrator waits for a second or two. */
const RESPONSE_MS = 1_500

/** The database is asked at most this often. */
const CHECK_INTERVAL_MS = 1_000

/**
 * Creates the check of `/readyz`. It resolves within two seconds, whatever the database does.
 *
 * @returns why the service cannot serve calls now; empty: it can
 */
export function createReady(
  { orm, recordingPool }: Database,
  batches: BatchWatch,
  draining: AbortSignal,
): () => Promise<readonly string[]> {
  const newerSchema = { ...newerSchemaQuery(orm), query_timeout: RESPONSE_MS }
  let reasons: readonly string[] = []
  const check = async () => {
    const atMs = performance.now()
    const { rowCount } = await recordingPool.query(newerSchema)
    if (rowCount !== 0) reasons = ['the schema is newer than this version']
    else if (await isLogCurrent(recordingPool)) reasons = []
    else reasons = ['the event log follows a failover or a restore of the database']
    return { value: undefined, atMs }
  }
  // Requests share a check, so that a flood of them holds one connection, once a second.
  const checked = shareResult(check, CHECK_INTERVAL_MS)
  return async () => {
    if (draining.aborted) return ['the service is stopping']
    const responds = await withTimeout(checked(), RESPONSE_MS).catch(() => false)
    if (!responds) return ['the database does not respond']
    return batches.stuck() ? ['payments wait for the database'] : reasons
  }
}
