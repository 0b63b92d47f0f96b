import type { Pool } from 'pg'
import { appendAudit } from '../audit.ts'
import type { Actor } from '../caller.ts'
import type { Clock } from '../clock.ts'
import { Fault } from '../errors.ts'
import { newId } from '../ids.ts'
import type { Gate } from '../store/gate.ts'
import { inTransaction } from '../store/in-transaction.ts'
import { isLegalMove } from './ledger.ts'
import { encodeTransactionEvent } from './message.ts'
import { lockTransaction } from './queries.ts'
import { undoPostings } from './store.ts'
import type { StoredTransaction } from './transaction.ts'

interface Dependencies {
  readonly pool: Pool
  readonly clock: Clock
  /** What waits for a transaction's row, or for the audit log, waits here first. */
  readonly gate: Gate
  /** Called after a commit that added an event. */
  readonly published: () => void
}

/**
 * Takes a payment back, once. Each of its postings is undone by its mirror: what a settlement moved
 * is moved back, the fee is returned, and then the payment itself goes.
 *
 * @throws Fault not_found, already_reversed, not_reversible (it is pending or failed)
 */
export async function reverseTransaction(
  { pool, clock, gate, published }: Dependencies,
  request: { readonly transactionId: string; readonly reason: string },
  actor: Actor,
): Promise<StoredTransaction> {
  const reversed = await gate(() =>
    inTransaction(pool, async (client) => {
      // The row first: a settlement that is at it commits before, and its postings are then seen.
      const transaction = await lockTransaction(client, request.transactionId)
      if (transaction === undefined) throw new Fault('not_found', 'There is no such transaction')
      const { settled, status } = transaction
      if (status === 'REVERSED') {
        throw new Fault('already_reversed', 'The transaction was reversed before')
      }
      if (!isLegalMove(transaction, { status: 'REVERSED', settled })) {
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
  published()
  return reversed
}
