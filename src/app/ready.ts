import { shareResult } from '../core/shared-result.ts'
import { withTimeout } from '../core/with-timeout.ts'
import { isLogCurrent } from '../events/log-state.ts'
import type { BatchWatch } from '../postgres/batcher.ts'
import { newerSchemaQuery } from '../postgres/migrate.ts'
import type { Database } from '../postgres/orm.ts'

/** An orchestrator waits for a second or two. */
const RESPONSE_MS = 1_500

/** The database is asked at most this often. */
const CHECK_INTERVAL_MS = 1_000

/** Whether the service can serve calls. */
interface Ready {
  /** Why the service cannot serve calls now; empty: it can. Resolves within two seconds, whatever the database does. */
  reasons(): Promise<readonly string[]>
  /** What an operator should know although it can, as of the last check. */
  notes(): readonly string[]
}

/** Creates the check of `/readyz`. @param stopping aborts when the service is about to stop */
export function createReady(
  { orm, recordingPool }: Database,
  batches: BatchWatch,
  stopping: AbortSignal,
): Ready {
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
  // Requests share a check, so that a flood of them holds one connection, once a second.
  const checked = shareResult(check, CHECK_INTERVAL_MS)
  return {
    async reasons() {
      if (stopping.aborted) return ['the service is stopping']
      const responds = await withTimeout(checked(), RESPONSE_MS).catch(() => false)
      if (!responds) return ['the database does not respond']
      return batches.stuck() ? ['payments wait for the database'] : reasons
    },
    notes: () => notes,
  }
}
