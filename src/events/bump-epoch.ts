import type { Pool } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert } from '../core/errors.ts'
import { inTransaction } from '../postgres/in-transaction.ts'

/**
 * Begins a new epoch at the end of the log, after a restore that the sequencer could not notice.
 * Events that have no position get one in the next ticks. Payments wait for at most two seconds.
 */
export async function bumpEpoch(pool: Pool, actor: Actor): Promise<{ readonly epoch: number }> {
  return inTransaction(pool, async (client) => {
    const sql = 'select new_epoch from bump_event_epoch()'
    const { rows } = await client.query<{ new_epoch: number }>(sql)
    const [row] = rows
    assert(row, 'bump_event_epoch always returns a row')
    const targetId = `${row.new_epoch}`
    await appendAudit(client, actor, { action: 'epoch.bump', targetId })
    return { epoch: row.new_epoch }
  })
}
