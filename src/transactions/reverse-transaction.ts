import type { Pool, PoolClient } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { Clock } from '../core/clock.ts'
import { Fault } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import type { Semaphore } from '../postgres/semaphore.ts'
import { isLegalTransition } from './ledger/ledger.ts'
import { encodeTransactionEvent } from './message.ts'
import { lockTransaction } from './queries.ts'
import { reversePostings } from './reverse-store.ts'
import { appendShareEvents, findShares } from './shares/share-store.ts'
import type { StoredTransaction } from './transaction.ts'
import { returnedOf } from './variance/hold.ts'

interface Dependencies {
  readonly pool: Pool
  readonly clock: Clock
  /** Limits how many reversals hold a connection while they wait for a row or the audit log. */
  readonly semaphore: Semaphore
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
}

/**
 * Reverses a payment, once. Each of its postings gets a mirrored posting, also the shares of other businesses.
 *
 * @throws Fault not_found, already_reversed, not_reversible (the payment is pending or failed), imported_transaction
 */
export async function reverseTransaction(
  { pool, clock, semaphore, onCommit }: Dependencies,
  request: { readonly transactionId: string; readonly reason: string },
  actor: Actor,
): Promise<StoredTransaction> {
  const reversed = await semaphore(() =>
    inTransaction(pool, async (client) => {
      const transaction = await lockTransaction(client, request.transactionId)
      if (transaction === undefined) throw new Fault('not_found', 'There is no such transaction')
      const { reason } = request
      return reverseLocked(client, transaction, { reason, nowMs: clock.now() }, actor)
    }),
  )
  onCommit()
  return reversed
}

/**
 * Reverses a locked transaction. If it was held, it is so no longer.
 *
 * @param action what the audit log calls it
 * @throws Fault already_reversed, not_reversible, imported_transaction
 */
export async function reverseLocked(
  client: PoolClient,
  transaction: StoredTransaction,
  { reason, nowMs }: { readonly reason: string; readonly nowMs: number },
  actor: Actor,
  action: 'transaction.reverse' | 'transaction.complete_return' = 'transaction.reverse',
): Promise<StoredTransaction> {
  const { settled, status } = transaction
  if (status === 'REVERSED') {
    throw new Fault('already_reversed', 'The transaction was reversed before')
  }
  if (transaction.imported) {
    const text =
      'The payment was imported: its money is in no balance here, so it cannot be reversed'
    throw new Fault('imported_transaction', text)
  }
  if (!isLegalTransition(transaction, { status: 'REVERSED', settled })) {
    throw new Fault('not_reversible', 'Only a successful payment can be reversed')
  }
  const reversal = { reason, reversedAtMs: nowMs }
  const variance = returnedOf(transaction.variance, nowMs)
  const after: StoredTransaction = { ...transaction, status: 'REVERSED', reversal, variance }
  const eventId = newId('evt', nowMs)
  const payload = encodeTransactionEvent('PAYMENT_REVERSED', after, eventId, nowMs)
  await reversePostings(client, transaction.id, { ...reversal, eventId, payload })
  if (settled) await reverseShares(client, transaction, nowMs)
  await appendAudit(client, actor, {
    action,
    targetId: transaction.id,
    businessId: transaction.account.businessId,
    details: { reason, amountMinor: `${transaction.amountMinor}`, settled },
  })
  return after
}

/** The recipients of a settled payment give their shares back. */
async function reverseShares(
  client: PoolClient,
  { id, account: { businessId, live } }: StoredTransaction,
  nowMs: number,
): Promise<void> {
  const change = { kind: 'SHARE_REVERSED', subjectId: id, ownerId: businessId, live } as const
  await appendShareEvents(client, { ...change, atMs: nowMs }, await findShares(client, id))
}
