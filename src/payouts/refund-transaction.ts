import type { PoolClient } from 'pg'
import type { Actor } from '../auth/caller.ts'
import { SANDBOX_BANK } from '../banks/institutions.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { formatAmount } from '../core/money.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { getLocked, getTransactionById } from '../transactions/find-transactions.ts'
import { reverseLocked } from '../transactions/reverse-transaction.ts'
import type { Payer, StoredTransaction } from '../transactions/transaction.ts'
import { repeatReason } from './find-anywhere.ts'
import type { Payout } from './payout.ts'
import {
  NO_ORIGIN,
  type PayoutContext,
  type Reservation,
  replay,
  requesterOf,
  reserve,
} from './reserve-payout.ts'
import {
  enquireName,
  isExpectedName,
  type RequestedAccount,
  type ResolvedAccount,
  resolveAccount,
} from './resolve-name.ts'
import { findByReference } from './store.ts'

/** A request to refund a payment. */
export interface RefundRequest {
  readonly transactionId: string
  /** In kobo; 0: everything that is left of the payment. */
  readonly amountMinor: bigint
  readonly reason: string
  /** The account that gets the refund instead of the payer, after an approval; undefined: the payer. */
  readonly account: RequestedAccount | undefined
  /** Empty: a reference is generated, so that a repeated request refunds again. */
  readonly reference: string
  readonly amountField: string
}

/**
 * Refunds a payment: reserves a payout to its payer. A refund to another account, or to one of another name than the payer's,
 * needs the approval of a second person. The database ensures that all refunds of a payment together never exceed the
 * payment. If the payment is held and its return was requested, the paid refund completes the return.
 *
 * @throws Fault not_found, not_refundable, refund_exceeds_payment, validation_failed, name_mismatch,
 * duplicate_reference, insufficient_balance, payouts_paused, bank_unavailable, unavailable
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
  // Without a lock: it may be held for long, and nothing limits how many wait here. `addRefund` locks, and checks again.
  const transaction = await getTransactionById(durablePool, transactionId)
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
 * Finds the refund that an earlier call with the same reference requested, even if the payment was reversed since.
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
  const approval =
    recipientReason('refund', recipient, resolved) ||
    (request.reference === '' ? await repeatReason(context.database.durablePool) : '')
  const reservation: Reservation = {
    ...NO_ORIGIN,
    businessId,
    live,
    // Empty: it is made once the balance is locked.
    reference: request.reference,
    purpose: 'REFUND',
    source: 'available',
    amountMinor: request.amountMinor,
    resolved,
    narration: `Refund ${transaction.sessionId}`.slice(0, 100),
    requestedBy: requesterOf(actor),
    approval,
    transactionId: transaction.id,
    refundedSessionId: transaction.sessionId,
    amountField,
    reason: request.reason,
  }
  return reserve(context, reservation, async (client) => ({
    ...(await addRefund(client, request)),
    reference: request.reference || (await nextReference(client, transaction, nowMs)),
  }))
}

/**
 * The reference of a refund whose caller states none. It follows from the session at the bank, as a payment that was lost in a
 * restore is recorded again under another id, and from how many such refunds the payment has: a request that is repeated after
 * its payout was lost leads to the transfer that the bank knows.
 */
async function nextReference(
  client: PoolClient,
  { id, bank, sessionId, account: { businessId, live } }: StoredTransaction,
  nowMs: number,
): Promise<string> {
  const prefix = `refund:${bank}:${sessionId}:`
  const { rows } = await client.query<{ count: string }>(
    // Earlier versions had the id of the transaction in the reference.
    `select count(*) from payout where transaction_id = $1
      and (starts_with(reference, $2) or starts_with(reference, 'refund:' || $1 || ':'))`,
    [id, prefix],
  )
  const reference = `${prefix}${BigInt(rows[0]?.count ?? 0) + 1n}`
  // The business may have chosen it for something else.
  const used = await findByReference(client, { businessId, live, reference })
  return used === undefined ? reference : newId('refund', nowMs)
}

/** @throws Fault not_refundable */
function requireRefundable({ status, imported, variance }: StoredTransaction): void {
  const refuse = (text: string) => new Fault('not_refundable', text)
  if (imported) throw refuse('The payment was imported: its money is in no balance here')
  if (status !== 'SUCCESS')
    throw refuse(`The payment is ${status}: only a successful one can be refunded`)
  if (variance?.hold === 'HELD') throw refuse('The payment is on hold: request its return first')
}

/** Whether the payment is held and its return was requested, so that the refund completes the return. */
function isReturned({ variance }: StoredTransaction): boolean {
  return variance?.hold === 'RETURN_REQUESTED'
}

/**
 * Completes the return of a held payment in the transaction that makes its refund PAID: the bank has sent the money back, so
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
  // The bank is asked again about a paid refund, so this may run more than once.
  if (transaction.status === 'REVERSED') return
  const reversal = { reason: `returned by the payout ${id}`, nowMs }
  await reverseLocked(client, transaction, reversal, actor, 'transaction.complete_return')
}

/** The payout that returned a held payment, also if it was sent back since; undefined: none did. */
export async function findPaidReturn(
  on: Queryable,
  transactionId: string,
): Promise<string | undefined> {
  const { rows } = await on.query<{ id: string }>(
    `select id from payout
      where transaction_id = $1 and source = 'held' and status in ('PAID', 'RETURNED') order by id desc limit 1`,
    [transactionId],
  )
  return rows[0]?.id
}

interface Recipient extends Pick<RefundRequest, 'account'> {
  readonly payer: Payer
  readonly owner: Pick<Payout, 'businessId' | 'live'>
}

/**
 * Why a refund needs an approval whatever the rules say; empty: it does not. Which institution a payer's account is at is
 * partly a guess, as banks report it in various ways: a holder whose name is not the payer's is not paid without an approval.
 */
export function recipientReason(
  what: 'refund' | 'return',
  { payer, account }: Pick<Recipient, 'payer' | 'account'>,
  { destination }: ResolvedAccount,
): string {
  if (account !== undefined) return `a ${what} to another account than the payer’s`
  // Simulated payers have the name that a test chose.
  if (payer.bankCode === SANDBOX_BANK.code) return ''
  if (payer.name === '') return 'the bank did not state the name of the payer'
  return isExpectedName(payer.name, destination.accountName)
    ? ''
    : 'the bank states another name than the payer’s'
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
 * Adds a refund to the sum of the refunds of a payment. The caller has locked the balance.
 *
 * @returns the amount of the refund, and its source. The source is `held` if the payment is being returned. It is `pending`
 * if the payment is not settled and enough of its pending money is left; otherwise it is `available`. Earlier versions made
 * pending money that was sent back available; it no longer counts as pending.
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
    const message = 'must be the whole payment, because its return was requested'
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

/** The pending money of a payment that refunds have not taken. */
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
