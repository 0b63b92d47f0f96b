import type { PoolClient } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert, Fault } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Semaphore } from '../postgres/semaphore.ts'
import { getLocked } from './find-transactions.ts'
import { isLegalTransition } from './ledger.ts'
import { encodeTransactionEvent } from './message.ts'
import { appendShareEvents, findShares } from './share-store.ts'
import type { StoredTransaction } from './transaction.ts'
import { returnedOf } from './variance/variance.ts'

/**
 * Reverses a payment, once. Each of its postings gets a mirrored posting, also the shares of other businesses.
 *
 * @param semaphore limits how many reversals hold a connection while they wait for a row or the audit log
 * @throws Fault not_found, already_reversed, not_reversible (the payment is pending or failed), imported_transaction
 */
export async function reverseTransaction(
  { database: { durablePool }, clock, onCommit }: Runtime,
  semaphore: Semaphore,
  request: { readonly transactionId: string; readonly reason: string },
  actor: Actor,
): Promise<StoredTransaction> {
  const reversed = await semaphore(() =>
    inTransaction(durablePool, async (client) => {
      const transaction = await getLocked(client, request.transactionId)
      const { reason } = request
      return reverseLocked(client, transaction, { reason, nowMs: clock.now() }, actor)
    }),
  )
  onCommit()
  return reversed
}

/**
 * Reverses a locked transaction, and ends its hold if it was held.
 *
 * @param action the name of the action in the audit log
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
    throw new Fault('already_reversed', 'The transaction was already reversed')
  }
  if (transaction.imported) {
    const text =
      'The payment was imported: its money is in no balance here, so it cannot be reversed'
    throw new Fault('imported_transaction', text)
  }
  if (!isLegalTransition(transaction, { status: 'REVERSED', settled })) {
    throw new Fault('not_reversible', 'Only a successful payment can be reversed')
  }
  await requireNoRefunds(client, transaction.id)
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

/** The row is locked, so no refund can begin in the meantime. @throws Fault not_reversible */
async function requireNoRefunds(client: PoolClient, id: string): Promise<void> {
  // The domain of payouts, which depends on this domain, defines the SQL functions.
  const { rows } = await client.query<{ is_refunded: boolean; is_reduced: boolean }>(
    `select refunded_minor($1) > 0 as is_refunded,
        exists (select from refunded_pending($1) r (minor) where r.minor > 0) as is_reduced`,
    [id],
  )
  if (rows[0]?.is_refunded) {
    throw new Fault('not_reversible', 'The payment has refunds: its money would leave twice')
  }
  if (rows[0]?.is_reduced) {
    const text =
      'A refund of the payment failed after its settlement and its money became available: refund it again instead'
    throw new Fault('not_reversible', text)
  }
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

/**
 * Reverses a locked, successful transaction: adds the mirror of each of its postings, and an event
 * that carries the change of its business's balances. Ends its hold if it was held.
 */
async function reversePostings(
  client: PoolClient,
  id: string,
  reversal: {
    readonly reason: string
    readonly reversedAtMs: number
    readonly eventId: string
    readonly payload: Uint8Array
  },
): Promise<void> {
  const result = await client.query({
    name: 'transaction-reverse',
    text: `with reversed as (
        update transaction set status = 'REVERSED' where id = $1 and status = 'SUCCESS'
        returning id, business_id, live
      ), reason as (
        insert into reversal (transaction_id, reason, reversed_at) select id, $2, $3 from reversed
      ), mirrored as (
        -- Each posting of the same business, with debit and credit swapped.
        insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
          credit_account, amount_minor, created_at)
        select r.id, p.kind || '_reversal', p.business_id, r.live, p.credit_account, p.debit_account,
          p.amount_minor, $3
        from reversed r join ledger_posting p on p.transaction_id = r.id
        returning business_id, debit_account, credit_account, amount_minor
      ), changes as (
        select account, sum(amount_minor) as amount_minor from (
          select business_id, credit_account as account, amount_minor from mirrored
          union all select business_id, debit_account, -amount_minor from mirrored
        ) side where business_id = (select business_id from reversed) group by account
      ), returned as (
        update payment_variance v set hold = 'RETURNED', decided_at = $3
        from reversed where v.transaction_id = reversed.id and v.hold in ('HELD', 'RETURN_REQUESTED')
      ), published as (
        -- nets_zero: the money was in the balances of the business, and others got all of it. The money of a held
        -- payment never was in them.
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id,
          pending_minor, available_minor, fees_minor, nets_zero)
        select $4, business_id, live, 'PAYMENT_REVERSED', $3, $5, id,
          coalesce((select amount_minor from changes where account = 'pending'), 0),
          coalesce((select amount_minor from changes where account = 'available'), 0),
          coalesce((select amount_minor from changes where account = 'fees'), 0),
          coalesce((select bool_and(amount_minor = 0) from changes
            where account in ('pending', 'available', 'fees')), false)
        from reversed
      )
      select id from reversed`,
    values: [
      id,
      reversal.reason,
      new Date(reversal.reversedAtMs),
      reversal.eventId,
      reversal.payload,
    ],
  })
  assert(result.rows.length === 1, 'a locked, successful transaction can be reversed')
}
