import type { Pool } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { Clock } from '../core/clock.ts'
import { Fault } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import type { Semaphore } from '../postgres/semaphore.ts'
import { isLegalTransition } from './ledger.ts'
import { encodeTransactionEvent } from './message.ts'
import { lockTransaction } from './queries.ts'
import { undoPostings } from './store.ts'
import type { StoredTransaction } from './transaction.ts'

interface Dependencies {
  readonly pool: Pool
  readonly clock: Clock
  /** What waits for a transaction's row, or for the audit log, waits here first. */
  readonly semaphore: Semaphore
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
}

/**
 * Takes a payment back, once. Each of its postings is undone by its mirror: what a settlement moved
 * is moved back, the fee is returned, and then the payment itself goes.
 *
 * @throws Fault not_found, already_reversed, not_reversible (it is pending or failed)
 */
export async function reverseTransaction(
  { pool, clock, semaphore, onCommit }: Dependencies,
  request: { readonly transactionId: string; readonly reason: string },
  actor: Actor,
): Promise<StoredTransaction> {
  const reversed = await semaphore(() =>
    inTransaction(pool, async (client) => {
      // The row first: a settlement that is at it commits before, and its postings are then seen.
      const transaction = await lockTransaction(client, request.transactionId)
      if (transaction === undefined) throw new Fault('not_found', 'There is no such transaction')
      const { settled, status } = transaction
      if (status === 'REVERSED') {
        throw new Fault('already_reversed', 'The transaction was reversed before')
      }
      if (!isLegalTransition(transaction, { status: 'REVERSED', settled })) {
        throw new Fault('not_reversible', 'Only a successful payment can be reversed')
      }
      const nowMs = clock.now()
      const reversal = { reason: request.reason, reversedAtMs: nowMs }
      const after: StoredTransaction = { ...transaction, status: 'REVERSED', reversal }
      const eventId = newId('evt', nowMs)
      const payload = encodeTransactionEvent('PAYMENT_REVERSED', after, eventId, nowMs)
      await undoPostings(client, transaction.id, { ...reversal, eventId, payload })
      await appendAudit(client, actor, {
        action: 'transaction.reverse',
        targetId: transaction.id,
        businessId: transaction.account.businessId,
        details: { reason: request.reason, amountMinor: `${transaction.amountMinor}`, settled },
      })
      return after
    }),
  )
  onCommit()
  return reversed
}
