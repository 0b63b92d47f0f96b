import { shareResult, withTimeout } from '../core/concurrency.ts'
import { isLogCurrent } from '../events/log-state.ts'
import type { BatchWatch } from '../postgres/batcher.ts'
import { newerSchemaQuery } from '../postgres/migrate.ts'
import type { Database } from '../postgres/orm.ts'

/** How long a check waits for the database: orchestrators wait for a second or two. */
const RESPONSE_MS = 1_500

/** The shortest interval between two checks of the database. */
const CHECK_INTERVAL_MS = 1_000

/** Creates the check behind `/readyz`. @param stopping aborts when the service is about to stop */
export function createReady(
  { orm, recordingPool }: Database,
  batches: BatchWatch,
  stopping: AbortSignal,
) {
  const newerSchema = { ...newerSchemaQuery(orm), query_timeout: RESPONSE_MS }
  let reasons: readonly string[] = []
  let notes: readonly string[] = []
  const check = async () => {
    const atMs = performance.now()
    const { rows } = await recordingPool.query<{ newer: boolean; ended: boolean }>(newerSchema)
    const { newer, ended } = rows[0] ?? { newer: false, ended: false }
    notes = newer && !ended ? ['the schema is of a newer version: finish the upgrade'] : []
    if (ended) reasons = ['the schema is newer than this version']
    else if (await isLogCurrent(recordingPool)) reasons = []
    else reasons = ['the event log follows a failover or a restore of the database']
    return { value: undefined, atMs }
  }
  // Requests share a check, so that any number of them uses one connection, once a second.
  const checked = shareResult(check, CHECK_INTERVAL_MS)
  return {
    /** The reasons why calls cannot be served now; empty: the service is ready. Always resolves within two seconds. */
    async reasons(): Promise<readonly string[]> {
      if (stopping.aborted) return ['the service is stopping']
      const responds = await withTimeout(checked(), RESPONSE_MS).catch(() => false)
      if (!responds) return ['the database does not respond']
      return batches.stuck() ? ['payments wait for the database'] : reasons
    },
    /** Warnings for operators while the service is ready, from the last check. */
    notes: () => notes,
  }
}
