import type { PoolClient } from 'pg'
import { lockOneTimeAccounts, useAccounts } from '../../accounts/one-time-store.ts'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault } from '../../core/errors.ts'
import { newId } from '../../core/ids.ts'
import { inTransaction } from '../../postgres/in-transaction.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import type { Semaphore } from '../../postgres/semaphore.ts'
import { encodeTransactionEvent } from '../message.ts'
import { lockTransaction } from '../queries.ts'
import { reverseLocked } from '../reverse-transaction.ts'
import type { StoredTransaction } from '../transaction.ts'

/**
 * Accepts a held payment: its money becomes pending, and is settled as if it had been recorded now. The payment uses up
 * its account if that is a single-use account without a use so far. A repeated call changes nothing.
 *
 * @throws Fault not_found, not_held (never held, or its return was requested or completed)
 */
export function acceptPayment(
  runtime: Runtime,
  semaphore: Semaphore,
  transactionId: string,
  actor: Actor,
): Promise<StoredTransaction> {
  return decide(runtime, semaphore, transactionId, async (client, payment, nowMs) => {
    const { transaction, accountId, wouldUse } = payment
    const { variance } = transaction
    if (variance?.hold === 'ACCEPTED') return undefined
    if (variance?.hold !== 'HELD') throw notHeld(transaction)
    const after: StoredTransaction = {
      ...transaction,
      variance: { ...variance, hold: 'ACCEPTED', decidedAtMs: nowMs },
    }
    const event = eventOf('PAYMENT_NOTIFICATION', after, nowMs)
    await acceptHeld(client, transactionId, wouldUse, event)
    if (wouldUse) await useAccounts(client, [accountId], nowMs)
    await audit(client, actor, 'transaction.accept', transaction, {
      variance: variance.variance,
    })
    return after
  })
}

/**
 * Requests the return of a held payment, which an operator completes. A repeated call changes nothing.
 *
 * @throws Fault not_found, not_held (never held, or accepted)
 */
export function returnPayment(
  runtime: Runtime,
  semaphore: Semaphore,
  { transactionId, reason }: { readonly transactionId: string; readonly reason: string },
  actor: Actor,
): Promise<StoredTransaction> {
  return decide(runtime, semaphore, transactionId, async (client, { transaction }, nowMs) => {
    const { variance } = transaction
    if (variance?.hold === 'RETURN_REQUESTED' || variance?.hold === 'RETURNED') return undefined
    if (variance?.hold !== 'HELD') throw notHeld(transaction)
    const after: StoredTransaction = {
      ...transaction,
      variance: {
        ...variance,
        hold: 'RETURN_REQUESTED',
        decidedAtMs: nowMs,
        returnReason: reason,
      },
    }
    const event = eventOf('PAYMENT_RETURN_REQUESTED', after, nowMs)
    await requestReturn(client, transactionId, reason, event)
    await audit(client, actor, 'transaction.return', transaction, { reason })
    return after
  })
}

/**
 * Completes a requested return, once the money is on its way back: reverses the payment. A repeated call changes nothing.
 *
 * @param note how the money was returned: the reason of the reversal
 * @throws Fault not_found, not_held (no return was requested)
 */
export function completeReturn(
  runtime: Runtime,
  semaphore: Semaphore,
  { transactionId, note }: { readonly transactionId: string; readonly note: string },
  actor: Actor,
): Promise<StoredTransaction> {
  return decide(runtime, semaphore, transactionId, async (client, { transaction }, nowMs) => {
    const { variance } = transaction
    if (variance?.hold === 'RETURNED') return undefined
    if (variance?.hold !== 'RETURN_REQUESTED') {
      throw new Fault('not_held', `${stateText(transaction)}; no return was requested`)
    }
    const reversal = { reason: note, nowMs }
    return reverseLocked(client, transaction, reversal, actor, 'transaction.complete_return')
  })
}

/**
 * @param semaphore limits how many decisions hold a connection while they wait for a row or the audit log
 * @param run returns the changed transaction; undefined: the decision was made before
 */
async function decide(
  { database: { durablePool }, clock, onCommit }: Runtime,
  semaphore: Semaphore,
  transactionId: string,
  run: (
    client: PoolClient,
    payment: LockedPayment,
    nowMs: number,
  ) => Promise<StoredTransaction | undefined>,
): Promise<StoredTransaction> {
  const { transaction, changed } = await semaphore(() =>
    inTransaction(durablePool, async (client) => {
      const payment = await lockVaried(client, transactionId)
      if (payment === undefined) throw await whyNotVaried(client, transactionId)
      const changed = await run(client, payment, clock.now())
      return { transaction: changed ?? payment.transaction, changed: changed !== undefined }
    }),
  )
  if (changed) onCommit()
  return transaction
}

async function whyNotVaried(client: PoolClient, transactionId: string): Promise<Fault> {
  const { rowCount } = await client.query({
    name: 'transaction-exists',
    text: 'select from transaction where id = $1',
    values: [transactionId],
  })
  return rowCount === 1
    ? new Fault('not_held', 'The payment was never held')
    : new Fault('not_found', 'There is no such transaction')
}

function notHeld(transaction: StoredTransaction): Fault {
  return new Fault('not_held', stateText(transaction))
}

const STATE_TEXTS = {
  HELD: 'The payment is held',
  ACCEPTED: 'The payment was accepted',
  RETURN_REQUESTED: 'The return of the payment was requested',
  RETURNED: 'The payment was returned',
} as const

function stateText({ variance }: StoredTransaction): string {
  return variance?.hold ? STATE_TEXTS[variance.hold] : 'The payment was never held'
}

type DecisionEvent = ReturnType<typeof eventOf>

function eventOf(
  kind: 'PAYMENT_NOTIFICATION' | 'PAYMENT_RETURN_REQUESTED',
  transaction: StoredTransaction,
  occurredAtMs: number,
) {
  const eventId = newId('evt', occurredAtMs)
  const payload = encodeTransactionEvent(kind, transaction, eventId, occurredAtMs)
  return { eventId, occurredAtMs, payload }
}

/** Called last in the transaction, because appends to the audit log wait for each other. */
async function audit(
  client: PoolClient,
  actor: Actor,
  action: 'transaction.accept' | 'transaction.return',
  { id, amountMinor, account }: StoredTransaction,
  details: Readonly<Record<string, string>>,
): Promise<void> {
  await appendAudit(client, actor, {
    action,
    targetId: id,
    businessId: account.businessId,
    details: { ...details, amountMinor: `${amountMinor}` },
  })
}

/** A payment that was held once, locked until the commit with its account. */
interface LockedPayment {
  readonly accountId: string
  /** Whether accepting it uses up its account. */
  readonly wouldUse: boolean
  readonly transaction: StoredTransaction
}

/** @returns undefined if there is no such transaction, or its account is permanent */
async function lockVaried(
  client: PoolClient,
  transactionId: string,
): Promise<LockedPayment | undefined> {
  const { rows } = await client.query<{ account_id: string }>({
    name: 'payment-variance-account',
    text: 'select account_id from payment_variance where transaction_id = $1',
    values: [transactionId],
  })
  const accountId = rows[0]?.account_id
  if (accountId === undefined) return undefined
  // The account is locked first, because recording locks in this order, too.
  const terms = (await lockOneTimeAccounts(client, [accountId])).get(accountId)
  const transaction = await lockTransaction(client, transactionId)
  if (transaction === undefined) return undefined
  const wouldUse = terms?.singleUse === true && terms.usedAtMs === undefined
  return { accountId, wouldUse, transaction }
}

/** Accepts a locked, held payment: its money is pending from now on. */
async function acceptHeld(
  client: PoolClient,
  transactionId: string,
  isUse: boolean,
  { eventId, occurredAtMs, payload }: DecisionEvent,
): Promise<void> {
  await client.query({
    name: 'payment-accept',
    text: `with accepted as (
        update payment_variance set hold = 'ACCEPTED', decided_at = $2, is_use = $5
        where transaction_id = $1 and hold = 'HELD' returning transaction_id
      ), posted as (
        insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
          credit_account, amount_minor, created_at)
        select t.id, 'acceptance', t.business_id, t.live, 'held', 'pending', t.amount_minor, $2
        from accepted join transaction t on t.id = accepted.transaction_id
      )
      insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id,
        pending_minor)
      select $3, t.business_id, t.live, 'PAYMENT_NOTIFICATION', $2, $4, t.id, t.amount_minor
      from accepted join transaction t on t.id = accepted.transaction_id`,
    values: [transactionId, new Date(occurredAtMs), eventId, payload, isUse],
  })
}

/** Stores that the business asked to return a locked, held payment. */
async function requestReturn(
  client: PoolClient,
  transactionId: string,
  reason: string,
  { eventId, occurredAtMs, payload }: DecisionEvent,
): Promise<void> {
  await client.query({
    name: 'payment-request-return',
    text: `with requested as (
        update payment_variance set hold = 'RETURN_REQUESTED', decided_at = $2, return_reason = $5
        where transaction_id = $1 and hold = 'HELD' returning transaction_id, business_id, live
      )
      insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id)
      select $3, business_id, live, 'PAYMENT_RETURN_REQUESTED', $2, $4, transaction_id from requested`,
    values: [transactionId, new Date(occurredAtMs), eventId, payload, reason],
  })
}
