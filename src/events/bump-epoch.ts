import type { Pool } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert } from '../core/errors.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { ROWS_MAX } from './sequencer.ts'

/**
 * Begins a new epoch at the end of the log, after a restore that the sequencer could not notice.
 * Events that have no position get one. Payments wait for at most two seconds.
 */
export async function bumpEpoch(pool: Pool, actor: Actor): Promise<{ readonly epoch: number }> {
  return inTransaction(pool, async (client) => {
    const sql = 'select new_epoch from bump_event_epoch()'
    const { rows } = await client.query<{ new_epoch: number }>(sql)
    const [row] = rows
    assert(row, 'bump_event_epoch always returns a row')
    // In the same commit, so that no reader sees events without a position.
    await client.query('select from sequence_events($1)', [ROWS_MAX])
    const targetId = `${row.new_epoch}`
    await appendAudit(client, actor, { action: 'epoch.bump', targetId })
    return { epoch: row.new_epoch }
  })
}
