import type { Queryable } from '../../postgres/in-transaction.ts'

/**
 * Locks the index of what is due until the commit, so that no balance is lost from it:
 *
 * - `exclusive`: the follower, the sweep, and changes of terms and holidays, until their commit;
 * - `shared`: who replaces the row of one balance because a settlement completed or nothing was due.
 *
 * A row is computed from payments, terms and holidays that are read after the lock is taken, in a later
 * statement. So a row that the follower found, and therefore did not insert, is not removed for want of
 * the payment that the follower saw; and no row is computed from terms that are changed before it
 * is visible. Rows that a shared lock writes at the same time can only be too early, which the job
 * corrects.
 *
 * It is the last lock but those of rows of the index: its holder waits for no settlement.
 */
export async function lockDue(client: Queryable, mode: 'exclusive' | 'shared'): Promise<void> {
  const lock = mode === 'shared' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock'
  await client.query(`select ${lock}(hashtextextended('index of due settlements', 0))`)
}
