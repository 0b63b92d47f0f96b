import type { BankCode, IsSimulated, NotificationOutcome, PaymentPage } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { inSpan, paymentTraceOf } from '../core/tracing.ts'
import { findSessions } from '../notifications/payment-sessions.ts'
import {
  confirmAndRecord,
  type ProcessDependencies,
} from '../notifications/process-notification.ts'
import type { StoreListed } from '../notifications/receive-notification.ts'
import type { Runtime } from '../postgres/runtime.ts'
import {
  type FoundPayment,
  findReported,
  type RecordedPayment,
  type ReportedPayment,
} from '../transactions/find-reported.ts'
import { classifyRepeat } from '../transactions/transaction.ts'

export interface RecordMissingDependencies extends ProcessDependencies {
  readonly isSimulated: IsSimulated
  readonly storeListed: StoreListed
  /** Called for each listed payment whose notification was missed. */
  readonly onMissed: (bank: BankCode, outcome: NotificationOutcome) => void
}

/** How many payments of a page are requeried concurrently. */
const REQUERIES_MAX = 8

/**
 * Records the listed payments that are not recorded yet, as if the bank had sent their notifications: each
 * is confirmed by the bank and recorded once, as a transaction, an unmatched payment, or a conflict. If none of these is
 * possible, it is held for manual review. If the bank gives no clear response, it is stored: no later run may list it.
 * If the oldest payment of a list that is cut was missing, a warning says that there may be more.
 *
 * @returns how many it recorded, as transactions or as unmatched payments
 */
export async function recordMissing(
  runtime: Runtime,
  dependencies: RecordMissingDependencies,
  bank: BankCode,
  served: ServedBank,
  { payments, isCut }: Pick<PaymentPage, 'payments' | 'isCut'>,
): Promise<number> {
  const { clock, log, tracing } = runtime
  const { isSimulated, storeListed, onMissed } = dependencies
  // PostgreSQL can neither store nor compare NUL characters. `confirmAndRecord` later reports malformed fields.
  const reported = payments.map((payment) => ({
    ...payment,
    bankKey: payment.bankKey.replaceAll('\0', ''),
    sessionId: payment.sessionId.replaceAll('\0', ''),
    accountNumber: payment.accountNumber.replaceAll('\0', ''),
    status: 'SUCCESS' as const,
  }))
  const matches = await matchPayments(runtime, isSimulated, bank, reported)
  const unrecorded = payments.filter((_, index) => {
    const { finding, conflictRecorded } = matches[index] ?? {}
    return finding === 'MISSING' || (finding === 'MISMATCHED' && !conflictRecorded)
  })
  let count = 0
  for (let at = 0; at < unrecorded.length; at += REQUERIES_MAX) {
    const some = unrecorded.slice(at, at + REQUERIES_MAX)
    const processing = some.map(async (payment) => {
      const reading = { kind: 'payment', payment, bound: true } as const
      const recordedBy = 'reconciliation'
      const attributes = { 'inflow.bank': bank }
      const trace = paymentTraceOf({
        span: tracing?.start('record missing payment', { attributes }),
      })
      const receivedAtMs = clock.now()
      const report = { bank, served, reading, receivedAtMs, recordedBy, ...trace } as const
      const { outcome, cause, recorded } = await inSpan(
        trace.span,
        () => confirmAndRecord(runtime, dependencies, report),
        (result) => (result.outcome === 'RETRY' ? result.outcome : undefined),
      )
      // The notification has arrived in the meantime, so it was not missed.
      if (outcome === 'DUPLICATE') return
      // A conflict with a recorded payment is in manual review by itself.
      if (outcome === 'RETRY' || (outcome === 'MANUAL_REVIEW' && recorded === undefined)) {
        if (!(await storeListed(bank, payment, { outcome, cause }))) return
      }
      const { bankKey, sessionId } = payment
      const line = { bank, bankKey, sessionId, outcome, ...(cause !== '' && { cause }) }
      log.warn(line, "payment in the bank's list was missing or conflicts with the recorded one")
      onMissed(bank, outcome)
      if (outcome === 'RECORDED' || outcome === 'UNMATCHED') count += 1
    })
    await Promise.all(processing)
  }
  const [oldest] = payments.toSorted((a, b) => (a.paidAtMs ?? 0) - (b.paidAtMs ?? 0))
  if (isCut && oldest !== undefined && unrecorded.includes(oldest)) {
    const text =
      'the bank lists no payments before one that was missing: earlier ones may be missing too, so compare its statement'
    log.warn({ bank, accountNumber: oldest.accountNumber }, text)
  }
  return count
}

/** A payment as a bank's list or statement describes it, with the bank's identifiers. */
export interface KeyedPayment extends ReportedPayment {
  /** The bank's key of the payment; empty if the bank gives none. */
  readonly bankKey: string
  /** Empty if the bank gives none: the key is used instead. */
  readonly sessionId: string
}

/**
 * How a reported payment compares with the recorded payments. MATCHED: it is recorded with the same facts.
 * MISSING: it is not recorded. MISMATCHED: it is recorded with another amount, account or final status.
 * UNMATCHED: it is recorded as unmatched, and there is still no account for it.
 */
export type Finding = 'MATCHED' | 'MISSING' | 'MISMATCHED' | 'UNMATCHED'

export interface Match {
  readonly finding: Finding
  readonly recorded: RecordedPayment | undefined
  /** Whether this conflict is already in manual review. */
  readonly conflictRecorded: boolean
}

/** Compares reported payments with the recorded ones. @returns in the order of the payments */
export async function matchPayments(
  { database: { durablePool } }: Runtime,
  isSimulated: IsSimulated,
  bank: BankCode,
  payments: readonly KeyedPayment[],
): Promise<Match[]> {
  if (payments.length === 0) return []
  const keys = payments.map(({ bankKey }) => ({ bank, bankKey }))
  const sessions = await findSessions(durablePool, keys)
  const reported = payments.map((payment, index) => {
    const { bankKey, sessionId } = payment
    return { ...payment, sessionId: sessions[index] ?? (sessionId || bankKey) }
  })
  const simulated = isSimulated(bank)
  const found = await findReported(durablePool, bank, simulated, reported)
  return reported.map((payment, index) => toMatch(payment, found[index] as FoundPayment, simulated))
}

/** @param simulated whether the sandbox serves the bank */
function toMatch(reported: ReportedPayment, found: FoundPayment, simulated: boolean): Match {
  const { recorded, conflictRecorded } = found
  const finding = () => {
    if (recorded === undefined) return compareUnrecorded(reported, found)
    // The bank reports a real payment, but the recorded one was simulated.
    if (found.connector === 'sandbox' && !simulated) return 'MISMATCHED'
    return compareRecorded(reported, recorded, found.resolution === 'ASSIGNED')
  }
  return { finding: finding(), recorded, conflictRecorded }
}

function compareUnrecorded({ status }: ReportedPayment, found: FoundPayment): Finding {
  // Money that did not arrive, or was returned, is not supposed to be recorded.
  if (status !== 'SUCCESS' || found.resolution === 'RETURNED') return 'MATCHED'
  if (found.resolution === 'RETURNING') return 'UNMATCHED'
  // If the account has been opened since, the payment can be recorded.
  return found.isUnmatched && !found.isAccountOpen ? 'UNMATCHED' : 'MISSING'
}

/** @param assigned whether an operator assigned the payment to another account than the payer named */
function compareRecorded(
  reported: ReportedPayment,
  recorded: RecordedPayment,
  assigned: boolean,
): Finding {
  const accountNumber = assigned ? reported.accountNumber : recorded.accountNumber
  const { status } = reported
  if (status === 'REVERSED') {
    const same =
      recorded.amountMinor === reported.amountMinor && accountNumber === reported.accountNumber
    return same && ['REVERSED', 'FAILED'].includes(recorded.status) ? 'MATCHED' : 'MISMATCHED'
  }
  const repeat = classifyRepeat({ ...recorded, accountNumber }, { ...reported, status })
  if (repeat === 'final') return status === 'SUCCESS' ? 'MISSING' : 'MISMATCHED'
  return repeat === 'duplicate' ? 'MATCHED' : 'MISMATCHED'
}
