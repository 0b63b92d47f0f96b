import type { Actor } from '../auth/caller.ts'
import type {
  BankCode,
  BankPayment,
  IsSimulated,
  NotificationOutcome,
  Reading,
} from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { backoffMs } from '../core/backoff.ts'
import { HOUR_MS } from '../core/durations.ts'
import { Fault } from '../core/errors.ts'
import type { PaymentTrace } from '../core/tracing.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import { findReportedId } from '../transactions/find-transactions.ts'
import type { RecordPayment } from '../transactions/record-payment.ts'
import { type IsReturned, reverseUnmatched } from '../transactions/resolve-unmatched.ts'
import { reverseTransaction } from '../transactions/reverse-transaction.ts'
import type { RecordedBy, RecordOutcome, RecordResult } from '../transactions/transaction.ts'
import { confirmPayment, type MoneyReading } from './confirm-payment.ts'
import { type AssignSession, findSession, isSessionAssigned } from './payment-sessions.ts'
import { type Processed, wasRefused } from './store.ts'

/** Reverses a recorded or unmatched payment that its bank has reversed. A repeated call is safe. */
export type ReversePayment = (
  bank: BankCode,
  sessionId: string,
  reason: string,
) => Promise<Reversed>

/** `refused`: why the payment cannot be reversed, with the id of its transaction or of the unmatched payment. */
type Reversed =
  | 'reversed'
  | 'already reversed'
  | 'not recorded'
  | 'imported'
  | { readonly refused: string }

export interface ProcessDependencies {
  readonly assignSession: AssignSession
  readonly isReturned: IsReturned
  readonly recordPayment: RecordPayment
  /** Undefined: reversals are queued for manual review. */
  readonly reversePayment: ReversePayment | undefined
}

/** A report of a payment or of its reversal, which its bank has to confirm. */
interface Report extends PaymentTrace {
  readonly bank: BankCode
  readonly served: ServedBank
  readonly reading: Exclude<Reading, { kind: 'unauthenticated' }>
  /** When this report arrived; for a retry by the service, when the report first arrived. */
  readonly receivedAtMs: number
  readonly recordedBy: RecordedBy
}

interface AuthenticNotification extends Report {
  /** How many times it was processed before. */
  readonly tries: number
}

/** The result of one try, before the decision about another try. */
interface TryResult {
  readonly outcome: Exclude<NotificationOutcome, 'UNAUTHENTICATED'>
  readonly cause: string
  readonly refusal?: 'access' | undefined
  /** The result of recording the payment; absent if the try did not get that far. */
  readonly recorded?: RecordResult
}

const OUTCOMES: Readonly<Record<RecordOutcome, TryResult['outcome']>> = {
  RECORDED: 'RECORDED',
  DUPLICATE: 'DUPLICATE',
  UNMATCHED: 'UNMATCHED',
  CONFLICT: 'MANUAL_REVIEW',
}

/** The most tries. The waits double up to an hour: about two days in all, or two hours if the bank does not confirm. */
const TRIES_MAX = 54
const TRIES_UNCONFIRMED_MAX = 8

/** Tries do not end before this time after the receipt, because repeats by the bank count as tries, too. */
const TRIED_MIN_MS = 36 * HOUR_MS
const TRIED_UNCONFIRMED_MIN_MS = HOUR_MS

const BACKOFF = { minMs: 30_000, maxMs: HOUR_MS }

/** Records or reverses the payment of a notification if its bank confirms it. A repeated call is safe. */
export async function processNotification(
  runtime: Runtime,
  dependencies: ProcessDependencies,
  notification: AuthenticNotification,
): Promise<Processed> {
  const result = await confirmAndRecord(runtime, dependencies, notification)
  return decide(result, notification, runtime.clock.now())
}

/** The result of a try that failed for a fault of this service. */
export function failedProcessing(
  notification: Pick<AuthenticNotification, 'tries' | 'receivedAtMs'>,
  nowMs: number,
): Processed {
  return decide({ outcome: 'RETRY', cause: 'a fault of this service' }, notification, nowMs)
}

function decide(
  { outcome, cause }: TryResult,
  { tries, receivedAtMs }: Pick<AuthenticNotification, 'tries' | 'receivedAtMs'>,
  nowMs: number,
): Processed {
  const nextTryAtMs = nowMs + backoffMs(tries + 1, BACKOFF)
  const triedMs = nowMs - receivedAtMs
  if (outcome === 'RETRY') {
    if (tries < TRIES_MAX || triedMs < TRIED_MIN_MS) {
      return { state: 'PENDING', outcome, cause, nextTryAtMs }
    }
    return { state: 'MANUAL_REVIEW', outcome: 'MANUAL_REVIEW', cause, nextTryAtMs: undefined }
  }
  // A bank may send the notification before a requery can find the payment.
  if (outcome === 'UNCONFIRMED') {
    if (tries < TRIES_UNCONFIRMED_MAX || triedMs < TRIED_UNCONFIRMED_MIN_MS) {
      return { state: 'PENDING', outcome, cause, nextTryAtMs }
    }
  }
  const state = outcome === 'MANUAL_REVIEW' ? 'MANUAL_REVIEW' : 'PROCESSED'
  return { state, outcome, cause, nextTryAtMs: undefined }
}

/**
 * Asks the bank to confirm a report, and records or reverses the payment as the bank describes it. A repeated call is
 * safe.
 */
export async function confirmAndRecord(
  runtime: Runtime,
  dependencies: ProcessDependencies,
  report: Report,
): Promise<TryResult> {
  const { reading, served } = report
  if (reading.kind === 'ignored') return { outcome: 'IGNORED', cause: reading.cause }
  if (reading.kind === 'malformed') return { outcome: 'MANUAL_REVIEW', cause: reading.cause }
  // A payment that was ever refused is credited only if the bank confirms it, even if requeries are now turned off.
  const { bankKey } = reading.payment
  const requery =
    served.requery ||
    !reading.bound ||
    (await wasRefused(runtime.database.durablePool, report.bank, bankKey))
  const confirmation = await confirmPayment({ ...served, requery }, reading, report)
  switch (confirmation.kind) {
    case 'unknown':
      return { outcome: 'RETRY', cause: confirmation.cause, refusal: confirmation.refusal }
    case 'denied':
      return { outcome: 'UNCONFIRMED', cause: confirmation.cause }
    case 'conflict':
      return { outcome: 'MANUAL_REVIEW', cause: confirmation.cause }
    case 'reversed':
      return reverse(runtime, dependencies, report, reading, confirmation.payment)
    case 'paid':
      if (reading.kind === 'payment') {
        return record(dependencies, report, confirmation.payment)
      }
      return {
        outcome: 'RETRY',
        cause: 'the notification is a reversal; the bank confirms payment',
      }
  }
}

async function record(
  { assignSession, isReturned, recordPayment }: ProcessDependencies,
  { bank, receivedAtMs, recordedBy, traceparent, span }: Report,
  payment: BankPayment,
): Promise<TryResult> {
  const { bankKey, accountNumber, amountMinor, payer, narration } = payment
  const sessionId = await assignSession({ ...payment, bank })
  if (sessionId === undefined) {
    return { outcome: 'MANUAL_REVIEW', cause: otherPayment(payment.sessionId, bankKey) }
  }
  const incoming = {
    bank,
    live: true,
    accountNumber,
    sessionId,
    amountMinor,
    status: 'SUCCESS',
    paidAtMs: payment.paidAtMs ?? receivedAtMs,
    payer,
    narration,
    recordedBy,
    traceparent,
    span,
  } as const
  if (await isReturned(incoming)) {
    const recorded = { outcome: 'UNMATCHED', transaction: undefined } as const
    return { outcome: 'DUPLICATE', cause: 'it was returned to its payer', recorded }
  }
  // Only this call records payments that real banks report.
  const recorded = await recordPayment(incoming)
  const { outcome } = recorded
  const cause = outcome === 'CONFLICT' ? 'it conflicts with the transaction of its session' : ''
  return { outcome: OUTCOMES[outcome], cause, recorded }
}

async function reverse(
  { database: { durablePool } }: Runtime,
  { reversePayment }: ProcessDependencies,
  { bank }: Report,
  reading: MoneyReading,
  payment: BankPayment,
): Promise<TryResult> {
  const { bankKey } = payment
  const assigned = await findSession(durablePool, bank, bankKey)
  const sessionId = assigned ?? payment.sessionId
  const reason = 'the bank has reversed the payment'
  const unconfirmed = { outcome: 'UNCONFIRMED', cause: reason } as const
  // A service may have recorded it without the bank's key.
  const isUnknown = assigned === undefined && reading.kind === 'payment'
  if (reversePayment === undefined) {
    if (isUnknown) return unconfirmed
    return { outcome: 'MANUAL_REVIEW', cause: `the bank has reversed ${payment.sessionId}` }
  }
  if (assigned === undefined && (await isSessionAssigned(durablePool, bank, sessionId))) {
    if (isUnknown) return unconfirmed
    return { outcome: 'MANUAL_REVIEW', cause: otherPayment(sessionId, bankKey) }
  }
  const result = await reversePayment(bank, sessionId, reason)
  if (result === 'reversed') return { outcome: 'RECORDED', cause: '' }
  if (result === 'already reversed') return { outcome: 'DUPLICATE', cause: '' }
  if (result === 'imported') {
    const cause = 'the bank has reversed an imported payment, whose money is in no balance here'
    return { outcome: 'MANUAL_REVIEW', cause }
  }
  if (result !== 'not recorded') {
    return { outcome: 'MANUAL_REVIEW', cause: `the bank has reversed ${result.refused}` }
  }
  if (isUnknown) return unconfirmed
  return { outcome: 'MANUAL_REVIEW', cause: 'the bank has reversed a payment that is not recorded' }
}

function otherPayment(sessionId: string, bankKey: string): string {
  return `session ${sessionId} belongs to another payment than ${bankKey}`
}

interface Dependencies {
  readonly isSimulated: IsSimulated
  /** The payout that returned a held payment to its payer. */
  readonly findPaidReturn: (transactionId: string) => Promise<string | undefined>
  /** The service, as the audit log records it. */
  readonly actor: Actor
}

const REVERSALS_MAX = 4

/** Reverses payments that their banks have reversed. Banks report payments of live mode only. */
export function createReversePayment(
  runtime: Runtime,
  { isSimulated, findPaidReturn, actor }: Dependencies,
): ReversePayment {
  const semaphore = createSemaphore(REVERSALS_MAX)
  return async (bank, sessionId, reason) => {
    const { durablePool } = runtime.database
    const transactionId = await findReportedId(durablePool, { bank, sessionId }, isSimulated)
    if (transactionId === undefined) {
      return semaphore(() => reverseUnmatched(runtime, { bank, sessionId }, actor))
    }
    try {
      await reverseTransaction(runtime, semaphore, { transactionId, reason }, actor)
      return 'reversed'
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      if (error.reason === 'already_reversed') {
        const payoutId = await findPaidReturn(transactionId)
        if (payoutId === undefined) return 'already reversed'
        return { refused: `${transactionId}: the payout ${payoutId} returned it` }
      }
      if (error.reason === 'imported_transaction') return 'imported'
      if (error.reason === 'not_reversible') {
        return { refused: `${transactionId}: ${error.message}` }
      }
      throw error
    }
  }
}
