import { withTimeout } from '../core/with-timeout.ts'
import { isLogCurrent } from '../events/log-state.ts'
import type { BatchWatch } from '../postgres/batch-watch.ts'
import { newerSchemaQuery } from '../postgres/migrate.ts'
import type { Database } from '../postgres/orm.ts'

/** An orchestrator waits for a second or two. */
const RESPONSE_MS = 1_500

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
  const check = async (): Promise<void> => {
    const { rowCount } = await recordingPool.query(newerSchema)
    if (rowCount !== 0) reasons = ['the schema is newer than this version']
    else if (await isLogCurrent(recordingPool)) reasons = []
    else reasons = ['the event log follows a failover or a restore of the database']
  }
  // Concurrent requests share one check, so that they hold one connection.
  let checking: Promise<void> | undefined
  return async () => {
    if (draining.aborted) return ['the service is stopping']
    checking ??= check().finally(() => {
      checking = undefined
    })
    const responds = await withTimeout(checking, RESPONSE_MS).catch(() => false)
    if (!responds) return ['the database does not respond']
    return batches.stuck() ? ['payments wait for the database'] : reasons
  }
}
