import type { AccountStatus } from '../accounts/account.ts'
import type { listInReview } from '../accounts/resolve-account.ts'
import { BANK_FACTS, type BankCode } from '../banks/bank.ts'
import { formatAmount } from '../core/money.ts'
import type * as notifications from '../notifications/held-notifications.ts'
import type { Discrepancy } from '../payouts/discrepancy.ts'
import { NEVER_SEEN, type Payout } from '../payouts/payout.ts'
import type { listOverdue } from '../settlement/overdue.ts'
import type {
  ListedConflict,
  StoredTransaction,
  StoredUnmatched,
} from '../transactions/transaction.ts'
import type { Variance } from '../transactions/variance/variance.ts'
import type { listUnhealthy } from '../webhooks/endpoints/list-unhealthy.ts'

/** The element type of the list that a function returns. */
type Of<List extends (...args: never[]) => Promise<readonly unknown[]>> = Awaited<
  ReturnType<List>
>[number]

export function ofUnmatched(payment: StoredUnmatched): ReviewItem {
  const { id, bank, accountNumber, sessionId, amountMinor } = payment
  const payerName = payment.payer.name
  const payer = payerName === '' ? 'An unnamed payer' : payerName
  return {
    kind: 'UNMATCHED_PAYMENT',
    id,
    key: id,
    sinceMs: payment.createdAtMs,
    amountMinor,
    businessId: '',
    bank,
    live: true,
    accountNumber,
    sessionId,
    payerName,
    accountOf: { accountNumber },
    text: `${payer} paid to ${accountNumber} at ${BANK_FACTS[bank].name}, which is not an open account.`,
    actions: ['assign', 'refund', 'return'],
  }
}

export function ofNotification(held: Of<typeof notifications.listOldestHeld>): ReviewItem {
  const { id, bank, accountNumber, sessionId, amountMinor, cause } = held
  return {
    kind: 'HELD_NOTIFICATION',
    id,
    key: id,
    sinceMs: held.receivedAtMs,
    amountMinor,
    businessId: '',
    bank,
    live: true,
    accountNumber,
    sessionId,
    accountOf: { accountNumber },
    text: `A notification of ${BANK_FACTS[bank].name} is held: ${cause || 'no cause is stored'}.`,
    actions: ['retry notification', 'resolve notification'],
  }
}

export function ofConflict(conflict: ListedConflict): ReviewItem {
  const { id, bank, accountNumber, sessionId, amountMinor, recorded } = conflict
  const { businessId, live, recordedAccountNumber, recordedAmountMinor, recordedStatus } = recorded
  const differences = [
    accountNumber !== recordedAccountNumber &&
      `the account ${accountNumber} instead of ${recordedAccountNumber}`,
    amountMinor !== recordedAmountMinor &&
      `NGN ${formatAmount(amountMinor)} instead of ${formatAmount(recordedAmountMinor)}`,
    conflict.status !== recordedStatus && `${conflict.status} instead of ${recordedStatus}`,
  ].filter((difference) => difference !== false)
  return {
    kind: 'PAYMENT_CONFLICT',
    id,
    key: id,
    sinceMs: conflict.createdAt.getTime(),
    amountMinor,
    businessId,
    bank,
    live,
    accountNumber,
    sessionId,
    transactionId: conflict.transaction,
    accountOf: { accountNumber: recordedAccountNumber },
    expectedAmountMinor: recordedAmountMinor,
    text: `A report of the recorded payment ${sessionId} states ${differences.join(', ') || 'the facts that were recorded since'}.`,
    actions: ['resolve conflict'],
  }
}

export function ofOpening(opening: Of<typeof listInReview>): ReviewItem {
  const { id, bank, businessId, live, cause } = opening
  const name = BANK_FACTS[bank].name
  return {
    kind: 'ACCOUNT_OPENING',
    id: opening.reference,
    key: id,
    sinceMs: opening.createdAtMs,
    businessId,
    bank,
    live,
    accountOf: { reference: opening.reference },
    text: `${name} may or may not have opened the account: ${cause || 'it did not answer'}.`,
    actions: ['resolve account'],
  }
}

const VARIANCES: Readonly<Record<Variance, string>> = {
  NONE: 'as its account expects',
  UNDERPAID: 'less than its account expects',
  OVERPAID: 'more than its account expects',
  EXPIRED: 'paid after its account expired',
  REPEATED: 'into an account that was already paid',
  PAYER_NOT_ALLOWED: 'from a payer who is not allowed',
}

export function ofHeld(payment: StoredTransaction): ReviewItem {
  const { id, bank, account, sessionId, amountMinor, variance } = payment
  const { expectedAmountMinor } = account.terms ?? {}
  const isReturning = variance?.hold === 'RETURN_REQUESTED'
  const reason = variance?.returnReason ? `: ${variance.returnReason}` : ''
  const next = isReturning ? `its return is requested${reason}` : 'the business decides'
  return {
    kind: 'HELD_PAYMENT',
    id,
    key: id,
    amountMinor,
    bank,
    live: account.live,
    sessionId,
    // A return is requested by the decision about the hold, so it waits since that time.
    sinceMs: (isReturning ? variance.decidedAtMs : undefined) ?? payment.createdAtMs,
    businessId: account.businessId,
    accountNumber: account.accountNumber,
    transactionId: id,
    payerName: payment.payer.name,
    accountOf: { reference: account.reference },
    ...(expectedAmountMinor !== undefined && { expectedAmountMinor }),
    text: `The payment is ${VARIANCES[variance?.variance ?? 'NONE']}; ${next}.`,
    actions: isReturning ? ['complete return'] : ['accept payment', 'return payment'],
  }
}

export function ofEndpoint(endpoint: Of<typeof listUnhealthy>): ReviewItem {
  const { id, businessId, live, url, description, disabledReason, sinceMs } = endpoint
  const texts = {
    GONE: 'was disabled because it responded with 410',
    FAILING: 'was disabled because no attempt succeeded for five days',
    REQUESTED: 'is disabled',
  }
  const state =
    disabledReason === null ? 'has failed since its last success' : texts[disabledReason]
  return {
    kind: 'ENDPOINT',
    id,
    key: `${sinceMs} ${id}`,
    sinceMs,
    businessId,
    live,
    endpointUrl: url,
    endpointDescription: description,
    text: `The endpoint at ${new URL(url).origin} ${state}.`,
    actions: ['update endpoint', 'delete endpoint'],
  }
}

export function ofSettlement(balance: Of<typeof listOverdue>): ReviewItem {
  const { businessId, live, dueAtMs, failures } = balance
  const failed = failures === 0 ? '' : `; it failed ${failures} times in a row`
  return {
    kind: 'SETTLEMENT',
    id: businessId,
    sinceMs: dueAtMs,
    businessId,
    live,
    key: `${dueAtMs} ${live ? 'live' : 'test'} ${businessId}`,
    text: `The settlement of the business is overdue${failed}.`,
    actions: ['settle'],
  }
}

export function ofApproval(payout: Payout): ReviewItem {
  const { id, businessId, live, amountMinor, destination, requestedBy, approvalReason } = payout
  const { accountName, accountNumber, bankName } = destination
  return {
    kind: 'PAYOUT_APPROVAL',
    id,
    key: id,
    sinceMs: payout.createdAtMs,
    amountMinor,
    businessId,
    live,
    accountNumber,
    transactionId: payout.transactionId,
    text: `NGN ${formatAmount(amountMinor)} to ${accountName} at ${bankName}, requested by ${requestedBy}, awaits approval: ${approvalReason}.`,
    actions: ['approve payout', 'reject payout'],
  }
}

export function ofPayout(payout: Payout): ReviewItem {
  const { id, bank, status, failureReason, detail, submittedAtMs, createdAtMs } = payout
  const name = bank === undefined ? 'The bank' : BANK_FACTS[bank].name
  const state =
    status === 'MANUAL_REVIEW' && failureReason === NEVER_SEEN
      ? 'states that it never saw the payout'
      : 'has not stated whether it paid the payout'
  return {
    kind: 'PAYOUT',
    id,
    key: id,
    sinceMs: submittedAtMs ?? createdAtMs,
    amountMinor: payout.amountMinor,
    businessId: payout.businessId,
    ...(bank && { bank }),
    live: payout.live,
    accountNumber: payout.destination.accountNumber,
    sessionId: payout.sessionId,
    transactionId: payout.transactionId,
    text: `${name} ${state}${detail === '' ? '' : `: ${detail}`}.`,
    actions: ['resolve payout'],
  }
}

export function ofDiscrepancy(found: Discrepancy): ReviewItem {
  const { id, bank, live, businessId, amountMinor, accountNumber, sessionId, text } = found
  return {
    kind: 'PAYOUT_DISCREPANCY',
    id,
    key: id,
    sinceMs: found.foundAtMs,
    amountMinor,
    businessId,
    bank,
    live,
    accountNumber,
    sessionId,
    text,
    actions: ['resolve discrepancy'],
  }
}

/** The kinds of items, as the contract names them. Page tokens depend on this order. */
export const REVIEW_KINDS = [
  'UNMATCHED_PAYMENT',
  'HELD_NOTIFICATION',
  'PAYMENT_CONFLICT',
  'ACCOUNT_OPENING',
  'HELD_PAYMENT',
  'ENDPOINT',
  'SETTLEMENT',
  'PAYOUT_APPROVAL',
  'PAYOUT',
  'PAYOUT_DISCREPANCY',
] as const

export type ReviewKind = (typeof REVIEW_KINDS)[number]

/** A balance is normally settled within seconds after it is due. After this time, its settlement is overdue. */
export const OVERDUE_MS = 600_000

/** The kinds that only operators see. */
export const OPERATOR_KINDS: ReadonlySet<ReviewKind> = new Set([
  'UNMATCHED_PAYMENT',
  'HELD_NOTIFICATION',
  'PAYMENT_CONFLICT',
  'SETTLEMENT',
  'PAYOUT_DISCREPANCY',
])

/** The actions that can end an item. */
export type ReviewAction =
  | 'assign'
  | 'refund'
  | 'return'
  | 'retry notification'
  | 'resolve notification'
  | 'resolve conflict'
  | 'resolve account'
  | 'accept payment'
  | 'return payment'
  | 'complete return'
  | 'update endpoint'
  | 'delete endpoint'
  | 'settle'
  | 'approve payout'
  | 'reject payout'
  | 'resolve payout'
  | 'resolve discrepancy'

/** An item that waits for a decision. */
export interface ReviewItem {
  readonly kind: ReviewKind
  /** The id that the actions take. */
  readonly id: string
  /** The position of the item in the list of its kind, for page tokens. */
  readonly key: string
  readonly sinceMs: number
  readonly amountMinor?: bigint
  readonly businessId: string
  readonly bank?: BankCode
  readonly text: string
  readonly actions: readonly ReviewAction[]
  readonly live: boolean
  readonly accountNumber?: string
  readonly sessionId?: string
  readonly transactionId?: string
  /** Identifies the account of the item: its reference, or its number at the bank. */
  readonly accountOf?: { readonly reference: string } | { readonly accountNumber: string }
  readonly payerName?: string
  readonly expectedAmountMinor?: bigint
  readonly endpointUrl?: string
  readonly endpointDescription?: string
  /** The last three fields are added by `describeItems`. */
  readonly businessName?: string
  readonly account?: ReviewAccount
  readonly noted?: ReviewNote
}

/** The assignee and note of an item. */
export interface ReviewNote {
  /** Empty: it is unassigned. */
  readonly assignee: string
  /** Empty: none. */
  readonly note: string
  readonly notedAtMs: number
  /** The name of the caller who last changed the assignee or note. */
  readonly notedBy: string
}

/** The account of an item. */
export interface ReviewAccount {
  readonly businessId: string
  readonly reference: string
  readonly accountNumber: string
  readonly customerName: string
  readonly status: AccountStatus
}
