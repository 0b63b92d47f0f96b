import type { Pool } from 'pg'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import type { Clock } from '../../core/clock.ts'
import { Fault } from '../../core/errors.ts'
import { inTransaction, type Queryable } from '../../postgres/in-transaction.ts'
import { cutPage, readPage } from '../../postgres/page-token.ts'
import type { ListedConflict } from './payment-conflict.ts'
import { closeConflict, findConflict, listOpenConflicts } from './store.ts'

export { findConflict } from './store.ts'

/** The unresolved reports that contradict recorded payments, newest first. */
export async function listConflicts(
  on: Queryable,
  { pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string },
) {
  const page = readPage(pageSize, pageToken, 1)
  const rows = await listOpenConflicts(on, page.after?.[0], page.limit + 1)
  return cutPage(rows, page, ({ id }) => [id])
}

/**
 * Ends the manual review of a report. The recorded payment does not change.
 *
 * Faults: not_found.
 */
export async function resolveConflict(
  { pool, clock }: { readonly pool: Pool; readonly clock: Clock },
  { conflictId, note }: { readonly conflictId: string; readonly note: string },
  actor: Actor,
): Promise<ListedConflict> {
  await inTransaction(pool, async (client) => {
    if (!(await closeConflict(client, conflictId, note, clock.now()))) return
    await appendAudit(client, actor, {
      action: 'payment_conflict.resolve',
      targetId: conflictId,
      details: { note },
    })
  })
  const conflict = await findConflict(pool, conflictId)
  if (conflict === undefined) throw new Fault('not_found', 'There is no such conflict')
  return conflict
}
