import type { PoolClient } from 'pg'
import type { Actor } from '../auth/caller.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { formatAmount } from '../core/money.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { getLocked } from '../transactions/find-transactions.ts'
import { reverseLocked } from '../transactions/reverse-transaction.ts'
import type { Payer, StoredTransaction } from '../transactions/transaction.ts'
import type { Payout } from './payout.ts'
import {
  NO_ORIGIN,
  type PayoutContext,
  type Reservation,
  replay,
  requesterOf,
  reserve,
} from './reserve-payout.ts'
import { enquireName, type RequestedAccount, resolveAccount } from './resolve-name.ts'
import { findByReference } from './store.ts'

/** A request to refund a payment. */
export interface RefundRequest {
  readonly transactionId: string
  /** In kobo; 0: all that is left of the payment. */
  readonly amountMinor: bigint
  readonly reason: string
  /** Who gets it in place of the payer, after an approval; undefined: the payer. */
  readonly account: RequestedAccount | undefined
  /** Empty: one is made. */
  readonly reference: string
  readonly amountField: string
}

/**
 * Refunds a payment: reserves a payout to its payer, or to another account if a second person approves. All refunds of a
 * payment together never exceed it; the database enforces that. The refund of a held payment whose return was requested
 * completes the return once it is paid.
 *
 * @throws Fault not_found, not_refundable, refund_exceeds_payment, validation_failed, duplicate_reference,
 * insufficient_balance, payouts_paused, bank_unavailable, unavailable
 */
export async function refundTransaction(
  context: PayoutContext,
  request: RefundRequest,
  actor: Actor,
): Promise<{
  readonly payout: Payout
  readonly replayed: boolean
  readonly refundableMinor: bigint
}> {
  const { durablePool } = context.database
  const { transactionId } = request
  const transaction = await inTransaction(durablePool, (client) => getLocked(client, transactionId))
  const result =
    (await findOriginal(context, transaction, request)) ??
    (await reserveRefund(context, transaction, request, actor))
  const refundableMinor =
    transaction.status === 'SUCCESS'
      ? transaction.amountMinor - (await refundedMinor(durablePool, transactionId))
      : 0n
  return { ...result, refundableMinor }
}

/**
 * The refund that an earlier call requested: it is returned also once its payment is reversed.
 *
 * @throws Fault duplicate_reference
 */
async function findOriginal(
  { database: { durablePool }, institutions }: PayoutContext,
  { id, account: { businessId, live }, payer }: StoredTransaction,
  { reference, amountMinor, account }: RefundRequest,
) {
  if (reference === '') return undefined
  const original = await findByReference(durablePool, { businessId, live, reference })
  if (original === undefined) return undefined
  const { bankCode, accountNumber } = original.destination
  const recipient = account ?? payer
  const isSame =
    original.transactionId === id &&
    (amountMinor === 0n || amountMinor === original.amountMinor) &&
    recipient.accountNumber === accountNumber &&
    institutions.find(recipient.bankCode)?.code === bankCode
  return replay(original, isSame)
}

/** @throws Fault not_refundable, refund_exceeds_payment, validation_failed, … */
async function reserveRefund(
  context: PayoutContext,
  transaction: StoredTransaction,
  request: RefundRequest,
  actor: Actor,
) {
  requireRefundable(transaction)
  const { account, amountField } = request
  const { businessId, live } = transaction.account
  const nowMs = context.clock.now()
  const recipient = { payer: transaction.payer, account, owner: { businessId, live } }
  const resolved = await resolveRecipient(context, recipient, nowMs)
  const reservation: Reservation = {
    ...NO_ORIGIN,
    businessId,
    live,
    reference: request.reference || newId('refund', nowMs),
    purpose: 'REFUND',
    source: 'available',
    amountMinor: request.amountMinor,
    resolved,
    narration: `Refund ${transaction.sessionId}`.slice(0, 100),
    requestedBy: requesterOf(actor),
    approval: account === undefined ? '' : 'a refund to another account than the payer’s',
    isCharged: false,
    transactionId: transaction.id,
    refundedSessionId: transaction.sessionId,
    amountField,
  }
  return reserve(context, reservation, (client) => addRefund(client, request))
}

/** @throws Fault not_refundable */
function requireRefundable({ status, imported, variance }: StoredTransaction): void {
  const refuse = (text: string) => new Fault('not_refundable', text)
  if (imported) throw refuse('The payment was imported: its money is in no balance here')
  if (status !== 'SUCCESS')
    throw refuse(`The payment is ${status}: only a successful one can be refunded`)
  if (variance?.hold === 'HELD') throw refuse('The payment is on hold: request its return first')
}

/** Whether the payment is held, and its return was requested: the refund completes the return. */
function isReturned({ variance }: StoredTransaction): boolean {
  return variance?.hold === 'RETURN_REQUESTED'
}

/**
 * Completes the return of a held payment, in the transaction that states its refund PAID: the money is on its way back, so
 * the payment is reversed.
 */
export async function completePaidReturn(
  client: PoolClient,
  { id, source, status, transactionId }: Payout,
  actor: Actor,
  nowMs: number,
): Promise<void> {
  if (source !== 'held' || status !== 'PAID') return
  const transaction = await getLocked(client, transactionId)
  // A paid one is asked about again.
  if (transaction.status === 'REVERSED') return
  const reversal = { reason: `returned by the payout ${id}`, nowMs }
  await reverseLocked(client, transaction, reversal, actor, 'transaction.complete_return')
}

interface Recipient extends Pick<RefundRequest, 'account'> {
  readonly payer: Payer
  readonly owner: Pick<Payout, 'businessId' | 'live'>
}

/** The payer of a payment, or the account that a request names. @throws Fault validation_failed, … */
export function resolveRecipient(
  context: PayoutContext,
  { payer, account, owner }: Recipient,
  nowMs: number,
) {
  if (account !== undefined) {
    return resolveAccount(context, owner, { resolution: '', account }, nowMs)
  }
  if (
    !/^\d{10}$/.test(payer.accountNumber) ||
    context.institutions.find(payer.bankCode) === undefined
  ) {
    const message = 'is required: the bank did not state the account of the payer'
    throw invalidFields([{ field: 'beneficiary', message }])
  }
  const { bankCode, accountNumber } = payer
  return enquireName(
    context,
    { bankCode, accountNumber, accountName: '', field: 'beneficiary' },
    owner.live,
  )
}

/**
 * Adds to the refunds of a payment whose balance is locked.
 *
 * @returns its amount, and the balance that it is paid from: `pending` until the payment is settled, as long as that has
 * enough of it. What was refunded from there and sent back by the bank is available. A payment that is returned is `held`.
 * @throws Fault not_refundable, refund_exceeds_payment
 */
async function addRefund(
  client: PoolClient,
  { transactionId, amountMinor: requestedMinor, amountField }: RefundRequest,
): Promise<Pick<Reservation, 'source' | 'amountMinor'>> {
  const transaction = await getLocked(client, transactionId)
  requireRefundable(transaction)
  const left = transaction.amountMinor - (await refundedMinor(client, transactionId))
  const amountMinor = requestedMinor || left
  if (amountMinor > left || left === 0n) {
    const message = `exceeds what is left of the payment, ${formatAmount(left)} naira`
    throw new Fault('refund_exceeds_payment', `The refund ${message}`, {
      fields: [{ field: amountField, message }],
      facts: { refundable_minor: `${left}` },
    })
  }
  if (isReturned(transaction) && amountMinor !== transaction.amountMinor) {
    const message = 'must be all of the payment: its return was requested'
    throw invalidFields([{ field: amountField, message }])
  }
  const isPending =
    !isReturned(transaction) &&
    !transaction.settled &&
    (await pendingLeft(client, transaction)) >= amountMinor
  await client.query(
    `insert into payout_refund as refund (transaction_id, amount_minor, refunded_minor, pending_minor)
      values ($1, $2, $3, $4)
      on conflict (transaction_id) do update set refunded_minor = refund.refunded_minor + $3,
        pending_minor = refund.pending_minor + $4`,
    [transactionId, transaction.amountMinor, amountMinor, isPending ? amountMinor : 0n],
  )
  if (isReturned(transaction)) return { amountMinor, source: 'held' }
  return { amountMinor, source: isPending ? 'pending' : 'available' }
}

/** What refunds have left of the pending money of a payment. */
async function pendingLeft(
  client: PoolClient,
  { id, amountMinor }: StoredTransaction,
): Promise<bigint> {
  const { rows } = await client.query<{ minor: string }>(
    'select minor from refunded_pending($1) r (minor)',
    [id],
  )
  return amountMinor - BigInt(rows[0]?.minor ?? 0)
}

async function refundedMinor(on: Queryable, transactionId: string): Promise<bigint> {
  const { rows } = await on.query<{ minor: string }>('select refunded_minor($1) as minor', [
    transactionId,
  ])
  return BigInt(rows[0]?.minor ?? 0)
}
