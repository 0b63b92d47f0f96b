import type { Metadata, PaymentTerms } from '../accounts/terms.ts'
import type { BankCode } from '../banks/bank.ts'
import type { PaymentTrace } from '../core/tracing.ts'
import type { PaymentVariance } from './variance/variance.ts'

/** The statuses of a transaction, the same in every protocol. */
export const TRANSACTION_STATUSES = ['PENDING', 'SUCCESS', 'FAILED', 'REVERSED'] as const

export type TransactionStatus = (typeof TRANSACTION_STATUSES)[number]

/** How a payment reaches a virtual account. */
export const PAYMENT_METHOD = 'bank_transfer'

/** The payer as the bank reports it; unknown fields are empty. */
export interface Payer {
  readonly name: string
  readonly accountNumber: string
  readonly bankCode: string
  readonly bankName: string
}

const PAID_FROM_MS = Date.UTC(2000, 0)
const PAID_BEFORE_MS = Date.UTC(2100, 0)

/** Whether a payment time is plausible. Banks send times outside this range for "no time". */
export function canBePaidAt(atMs: number): boolean {
  return atMs >= PAID_FROM_MS && atMs < PAID_BEFORE_MS
}

/**
 * Who recorded a payment. For a call, it includes the id of the token: of an internal service (`token`), of an operator
 * (`statement`, `assignment`, `import`), or of a simulated transfer (`sandbox`). It is a text, so that recording needs no
 * look-up. Events do not carry it, so no business sees it.
 */
export type RecordedBy =
  | 'notification'
  | 'reconciliation'
  | `${'token' | 'statement' | 'sandbox' | 'assignment' | 'import'}:${string}`

/** A payment as a bank reports it. */
export interface IncomingPayment extends PaymentTrace {
  readonly bank: BankCode
  readonly accountNumber: string
  readonly sessionId: string
  readonly amountMinor: bigint
  readonly status: Exclude<TransactionStatus, 'REVERSED'>
  readonly paidAtMs: number
  readonly payer: Payer
  readonly narration: string
  /**
   * True: for live accounts only, as for reports of a real bank; false: for test accounts only;
   * undefined: for the live account with the number, or else the test account.
   */
  readonly live: boolean | undefined
  readonly recordedBy: RecordedBy
}

/** A payment that an internal service reports. */
export interface TokenPayment extends IncomingPayment {
  /** The bank's own key of the payment; empty if the service does not give it. */
  readonly bankKey: string
}

interface AccountFacts {
  readonly businessId: string
  /** True: live mode; false: test mode. The transaction has the same mode. */
  readonly live: boolean
  readonly reference: string
  readonly merchantReference: string
  readonly accountNumber: string
  readonly accountName: string
  readonly firstName: string
  readonly lastName: string
  readonly email: string
  readonly createdAtMs: number
  /** Undefined: a permanent account. */
  readonly terms?: Pick<PaymentTerms, 'expectedAmountMinor'> | undefined
  readonly metadata?: Metadata | undefined
}

export interface Reversal {
  readonly reason: string
  readonly reversedAtMs: number
}

/** A recorded transaction with its account. */
export interface StoredTransaction {
  readonly id: string
  readonly account: AccountFacts
  readonly bank: BankCode
  readonly sessionId: string
  readonly amountMinor: bigint
  readonly status: TransactionStatus
  readonly settled: boolean
  /**
   * Whether it was imported from the history of another provider: then it is in no balance, makes no transition of
   * the ledger, and `settled` is what that provider stated. Absent: no.
   */
  readonly imported?: boolean | undefined
  readonly paidAtMs: number
  /** When the payment was recorded; if it was PENDING first, when it became final. */
  readonly createdAtMs: number
  readonly payer: Payer
  readonly narration: string
  /** If the payment was PENDING first: who recorded its final status. */
  readonly recordedBy: RecordedBy
  /** Undefined for permanent accounts, and while the money has not arrived. */
  readonly variance?: PaymentVariance | undefined
  /** The W3C traceparent that it was recorded with; undefined: none. */
  readonly traceparent?: string | undefined
  /** When its event got its position in the log; present in lists by recorded time. */
  readonly recordedAtMs?: number
  /** Present on a reversed transaction, in queries that load it. */
  readonly reversal?: Reversal
}

/** How many transactions a list has, and the sums of their amounts. */
export interface Totals {
  /** One entry for each status that occurs. */
  readonly statuses: readonly {
    readonly status: TransactionStatus
    readonly count: number
    readonly amountMinor: bigint
  }[]
  /** Whether reading stopped at a bound, so that there may be more. */
  readonly truncated: boolean
}

/** The fields of a transaction that its business sees. */
export interface ShownTransaction
  extends Pick<
    StoredTransaction,
    | 'sessionId'
    | 'bank'
    | 'amountMinor'
    | 'status'
    | 'settled'
    | 'paidAtMs'
    | 'recordedAtMs'
    | 'variance'
  > {
  readonly account: Pick<
    AccountFacts,
    | 'reference'
    | 'accountNumber'
    | 'accountName'
    | 'firstName'
    | 'lastName'
    | 'email'
    | 'terms'
    | 'metadata'
  >
  /** Another bank at which a payment of the business has the same session id. */
  readonly alsoAtBank?: BankCode
}

export type RecordOutcome = 'RECORDED' | 'DUPLICATE' | 'UNMATCHED' | 'CONFLICT'

export interface RecordResult {
  readonly outcome: RecordOutcome
  /** The current state of the transaction; undefined when the payment is unmatched. */
  readonly transaction: StoredTransaction | undefined
}

/** How a report compares with the transaction that is recorded for its session. */
export type Repeat = 'duplicate' | 'final' | 'conflict'

/**
 * Compares a report with the transaction that is recorded for its session. A report may finalize a
 * pending transaction and makes no other transition (see ledger.ts). A late PENDING report is a
 * duplicate. A final status that contradicts the recorded status is a conflict, for manual review.
 */
export function classifyRepeat(
  recorded: {
    readonly status: TransactionStatus
    readonly amountMinor: bigint
    readonly accountNumber: string
  },
  payment: Pick<IncomingPayment, 'amountMinor' | 'accountNumber' | 'status'>,
): Repeat {
  if (recorded.amountMinor !== payment.amountMinor) return 'conflict'
  if (recorded.accountNumber !== payment.accountNumber) return 'conflict'
  if (recorded.status === payment.status || payment.status === 'PENDING') return 'duplicate'
  if (recorded.status === 'PENDING') return 'final'
  if (recorded.status === 'REVERSED' && payment.status === 'SUCCESS') return 'duplicate'
  return 'conflict'
}

/** Whether the transaction waits for settlement. */
export function awaitsSettlement(transaction: StoredTransaction): boolean {
  const { status, settled, imported, variance } = transaction
  const isCredited = variance?.hold === undefined || variance.hold === 'ACCEPTED'
  return status === 'SUCCESS' && !settled && imported !== true && isCredited
}

/** When a payment was credited: for a payment that was held, when it was accepted. */
export function creditedAtOf({ createdAtMs, variance }: StoredTransaction): number {
  return variance?.decidedAtMs ?? createdAtMs
}

/** A report that contradicts a recorded payment, as it is stored. */
export interface StoredConflict {
  readonly id: string
  readonly bank: BankCode
  /** The id of the recorded transaction. */
  readonly transaction: string
  /** The session id of the report, and so of the transaction; empty if a statement does not give it. */
  readonly sessionId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly status: TransactionStatus
  readonly createdAt: Date
}

/** A stored report with the recorded payment of its session. */
export interface ListedConflict extends StoredConflict {
  readonly resolvedAtMs: number | undefined
  readonly note: string
  readonly recorded: {
    readonly businessId: string
    readonly live: boolean
    readonly recordedAccountNumber: string
    readonly recordedAmountMinor: bigint
    readonly recordedStatus: TransactionStatus
  }
}

/**
 * An operator's or its bank's decision about an unmatched payment. The database rejects all other transitions
 * (`unmatched_payment_guard` in the migrations).
 *
 *     (open) ──▶ ASSIGNED                  recorded for the account that the operator named, now or before
 *      ▲  └────▶ RETURNED                  returned outside Inflow, as the operator recorded, or reversed by its bank
 *      │ └─────▶ RETURNING ──▶ RETURNED    a payout returns it; it was paid
 *      └─────────────┴────────────┘        the payout was not paid, or was sent back
 *
 * A payment that is returned, or is being returned, is not recorded.
 */
export type Resolution = 'ASSIGNED' | 'RETURNED' | 'RETURNING'

/** A payment for an account number that is not open. */
export interface UnmatchedPayment extends Omit<IncomingPayment, 'recordedBy'> {
  readonly id: string
  readonly createdAtMs: number
}

/** The fields that all reports of a payment share. */
export type PaymentKey = Pick<
  UnmatchedPayment,
  'bank' | 'sessionId' | 'accountNumber' | 'amountMinor'
>

export interface StoredUnmatched extends UnmatchedPayment {
  /** Undefined while no operator has decided. */
  readonly resolution: Resolution | undefined
  readonly resolvedAtMs: number | undefined
  readonly note: string
  /** The transaction of its session, if it was assigned. */
  readonly transactionId: string | undefined
  /** The payout that returns it, while that is in progress or paid. */
  readonly payoutId: string | undefined
}
