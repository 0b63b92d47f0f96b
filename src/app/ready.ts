import { withTimeout } from '../core/with-timeout.ts'
import type { BatchWatch } from '../postgres/batch-watch.ts'
import type { Database } from '../postgres/orm.ts'

/** An orchestrator waits for a second or two. */
const RESPONSE_MS = 1_500

/**
 * Creates the check of `/readyz`. It resolves within two seconds, whatever the database does.
 *
 * @returns why the service cannot serve calls now; empty: it can
 */
export function createReady(
  { recordingPool }: Database,
  batches: BatchWatch,
  draining: AbortSignal,
): () => Promise<readonly string[]> {
  // Concurrent requests share one query, so that they hold one connection.
  let query: Promise<unknown> | undefined
  return async () => {
    if (draining.aborted) return ['the service is stopping']
    query ??= recordingPool.query({ text: 'select 1', query_timeout: RESPONSE_MS }).finally(() => {
      query = undefined
    })
    const responds = await withTimeout(query, RESPONSE_MS).catch(() => false)
    if (!responds) return ['the database does not respond']
    return batches.stuck() ? ['payments wait for the database'] : []
  }
}
