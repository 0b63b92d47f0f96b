import type { BankCode, BankPayment, IsSimulated, NotificationOutcome } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { inSpan, paymentTraceOf } from '../core/tracing.ts'
import { findSessions } from '../notifications/payment-sessions.ts'
import {
  confirmAndRecord,
  type ProcessDependencies,
} from '../notifications/process-notification.ts'
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
  /** Called for each listed payment whose notification was missed. */
  readonly onMissed: (bank: BankCode, outcome: NotificationOutcome) => void
}

/** How many payments of a page are requeried concurrently. */
const REQUERIES_MAX = 8

/**
 * Records listed payments that are not recorded as if the bank had sent their notifications: confirmed
 * by the bank, once, and as unmatched or as a conflict where they are.
 *
 * @returns how many it recorded, as transactions or as unmatched payments
 */
export async function recordMissing(
  runtime: Runtime,
  dependencies: RecordMissingDependencies,
  bank: BankCode,
  served: ServedBank,
  payments: readonly BankPayment[],
): Promise<number> {
  const { clock, log, tracing } = runtime
  const { isSimulated, onMissed } = dependencies
  // PostgreSQL can neither store nor compare NUL characters; processing reports what is malformed.
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
      const { outcome, cause } = await inSpan(
        trace.span,
        () => confirmAndRecord(runtime, dependencies, report),
        (result) => (result.outcome === 'RETRY' ? result.outcome : undefined),
      )
      // Its notification arrived meanwhile, so none was missed.
      if (outcome === 'DUPLICATE') return
      const { bankKey, sessionId } = payment
      const line = { bank, bankKey, sessionId, outcome, ...(cause !== '' && { cause }) }
      log.warn(line, "payment in the bank's list was missing or conflicts with the recorded one")
      onMissed(bank, outcome)
      if (outcome === 'RECORDED' || outcome === 'UNMATCHED') count += 1
    })
    await Promise.all(processing)
  }
  return count
}

/** A payment as a bank's list or statement describes it, and how the bank identifies it. */
export interface KeyedPayment extends ReportedPayment {
  /** The bank's key; empty if it is not given. */
  readonly bankKey: string
  /** Empty if it is not given: then the key takes its place. */
  readonly sessionId: string
}

/**
 * How a reported payment compares with the recorded ones: the same; not recorded; recorded with
 * another amount, account or final status; or recorded as unmatched, and still without an account.
 */
export type Finding = 'MATCHED' | 'MISSING' | 'MISMATCHED' | 'UNMATCHED'

export interface Match {
  readonly finding: Finding
  readonly recorded: RecordedPayment | undefined
  /** Whether this conflict is already in manual review. */
  readonly conflictRecorded: boolean
}

/** Compares reported payments with the recorded ones; returns them in order. */
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
    // The bank reports its own payment, and what is recorded was simulated.
    if (found.connector === 'sandbox' && !simulated) return 'MISMATCHED'
    return compareRecorded(reported, recorded, found.resolution === 'ASSIGNED')
  }
  return { finding: finding(), recorded, conflictRecorded }
}

function compareUnrecorded({ status }: ReportedPayment, found: FoundPayment): Finding {
  // Money that did not arrive, or was returned, is rightly not recorded.
  if (status !== 'SUCCESS' || found.resolution === 'RETURNED') return 'MATCHED'
  if (found.resolution === 'RETURNING') return 'UNMATCHED'
  // If its account has been opened since, the payment can be recorded.
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
