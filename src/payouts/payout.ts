import { createHash } from 'node:crypto'
import type { BankCode } from '../banks/bank.ts'
import { DAY_MS } from '../core/durations.ts'

/**
 * Where a payout stands. What moves a payout is a verb of the service, or what the bank states.
 *
 *     PENDING_APPROVAL ──approved──▶ APPROVED ──claimed──▶ SUBMITTING ──the bank paid──▶ PAID ──sent back──▶ RETURNED
 *       │ rejected ▶ REJECTED          │ ▲                   │   ├─the bank refused─▶ FAILED
 *       │ cancelled ▶ CANCELLED ◀──────┘ └─nothing was sent──┘   └─anything else─▶ UNKNOWN
 *       └ in time not approved ▶ EXPIRED
 *
 *     UNKNOWN ──asked──▶ PAID, FAILED, or ──the bank does not know it, or states nothing for a day──▶ MANUAL_REVIEW
 *     MANUAL_REVIEW ──asked, or decided──▶ PAID, FAILED, UNKNOWN, or ──sent again, same reference──▶ APPROVED
 *
 * A payout in UNKNOWN is only asked about. It is sent again from MANUAL_REVIEW alone, if the bank stated after its
 * consistency window that it never saw it, and an operator decided so.
 */
export type PayoutStatus = (typeof PAYOUT_STATUSES)[number]

export const PAYOUT_STATUSES = [
  'PENDING_APPROVAL',
  'APPROVED',
  'SUBMITTING',
  'UNKNOWN',
  'MANUAL_REVIEW',
  'PAID',
  'FAILED',
  'REJECTED',
  'CANCELLED',
  'EXPIRED',
  'RETURNED',
] as const

/** The legal transitions. The database rejects all others (`payout_guard` in the migrations). */
const TRANSITIONS: Readonly<Record<PayoutStatus, readonly PayoutStatus[]>> = {
  PENDING_APPROVAL: ['APPROVED', 'REJECTED', 'CANCELLED', 'EXPIRED'],
  APPROVED: ['SUBMITTING', 'CANCELLED'],
  SUBMITTING: ['PAID', 'FAILED', 'UNKNOWN', 'APPROVED'],
  UNKNOWN: ['PAID', 'FAILED', 'MANUAL_REVIEW'],
  MANUAL_REVIEW: ['PAID', 'FAILED', 'UNKNOWN', 'APPROVED'],
  PAID: ['RETURNED'],
  FAILED: [],
  REJECTED: [],
  CANCELLED: [],
  EXPIRED: [],
  RETURNED: [],
}

/** Whether a payout may go from one status to another. */
export function isLegalTransition(from: PayoutStatus, to: PayoutStatus): boolean {
  return TRANSITIONS[from].includes(to)
}

const FINAL: ReadonlySet<PayoutStatus> = new Set([
  'PAID',
  'FAILED',
  'REJECTED',
  'CANCELLED',
  'EXPIRED',
  'RETURNED',
])

/** Whether nothing is reserved for it any more. A paid one may still be returned. */
export function isFinal(status: PayoutStatus): boolean {
  return FINAL.has(status)
}

/** What a payout is for. */
export type PayoutPurpose = 'PAYOUT' | 'REFUND' | 'SETTLEMENT'

/**
 * The ledger account that a payout is paid from. `held`: it returns a held payment, which is in no balance, and whose
 * reversal follows in the commit that states the payout PAID. `unmatched`: it returns an unmatched payment, which no
 * business has been credited with.
 */
export type Source = 'available' | 'pending' | 'held' | 'unmatched'

/** Where the money goes. */
export interface Destination {
  /** The institution's six digits at the interbank switch. */
  readonly bankCode: string
  readonly bankName: string
  readonly accountNumber: string
  /** As the bank stated it. */
  readonly accountName: string
}

/** A payout as it is stored. Times are in epoch milliseconds, amounts in kobo. */
export interface Payout {
  readonly id: string
  /** Empty: it returns an unmatched payment, which belongs to none. */
  readonly businessId: string
  readonly live: boolean
  readonly reference: string
  readonly purpose: PayoutPurpose
  readonly status: PayoutStatus
  readonly source: Source
  readonly amountMinor: bigint
  readonly feeMinor: bigint
  readonly dutyMinor: bigint
  readonly destination: Destination
  readonly narration: string
  /** The bank that stated the name; undefined: none was asked. */
  readonly resolvedBank: BankCode | undefined
  readonly enquiryReference: string
  /** The bank that sends it; undefined until it is sent. */
  readonly bank: BankCode | undefined
  readonly bankReference: string
  readonly routing: string
  readonly sessionId: string
  /** A stable code; empty: it did not fail. In MANUAL_REVIEW: `NEVER_SEEN`, if the bank states so. */
  readonly failureReason: string
  readonly detail: string
  readonly requestedBy: string
  readonly approvalReason: string
  readonly decidedBy: string
  readonly decisionNote: string
  readonly createdAtMs: number
  readonly expiresAtMs: number | undefined
  readonly nextAtMs: number | undefined
  readonly submittedAtMs: number | undefined
  readonly completedAtMs: number | undefined
  readonly claims: number
  readonly attempts: number
  readonly transactionId: string
  readonly refundedSessionId: string
  readonly unmatchedPaymentId: string
  /** Where the unmatched payment arrived; empty: it returns none. */
  readonly unmatchedBank: BankCode | ''
  readonly settlementId: string
  readonly batchId: string
  /** The generation of `payout_sender` in which no bank knew it before it was sent. */
  readonly generation: number
}

/** What is reserved for a payout. */
export function totalOf({
  amountMinor,
  feeMinor,
  dutyMinor,
}: Pick<Payout, 'amountMinor' | 'feeMinor' | 'dutyMinor'>): bigint {
  return amountMinor + feeMinor + dutyMinor
}

/**
 * Our reference at the bank, 25 characters. It follows from what the caller chose: no payout ever has a second one, and a
 * request that is repeated after its payout was lost in a restore leads to the transfer that the bank knows.
 */
export function bankReferenceOf({
  businessId,
  live,
  reference,
}: Pick<Payout, 'businessId' | 'live' | 'reference'>): string {
  const key = JSON.stringify([businessId, live, reference])
  const digest = createHash('sha256').update(key).digest('hex').slice(0, 32)
  return BigInt(`0x${digest}`).toString(36).padStart(25, '0').toUpperCase()
}

/** One movement between ledger accounts. */
export interface PayoutPosting {
  readonly kind: 'reservation' | 'payment' | 'fee' | 'duty' | 'release' | 'return'
  readonly debit: Source | 'reserved' | 'paid_out'
  readonly credit: Source | 'reserved' | 'paid_out' | 'fees' | 'duty'
  readonly amountMinor: bigint
}

/** How a change moves the balances of the business; `reserved` follows from the payouts that are not final. */
export interface BalanceChange {
  readonly pendingMinor: bigint
  readonly availableMinor: bigint
  readonly feesMinor: bigint
}

type Money = Pick<Payout, 'source' | 'amountMinor' | 'feeMinor' | 'dutyMinor'>

/**
 * The postings that a payout makes when it reaches a status; PENDING_APPROVAL or APPROVED at first.
 *
 * @param releasedTo where the money goes back to: `available` if the payment of a pending refund was settled meanwhile
 */
export function postingsOf(
  payout: Money,
  to: PayoutStatus,
  { isNew = false, releasedTo = payout.source } = {},
): PayoutPosting[] {
  const { source, amountMinor, feeMinor, dutyMinor } = payout
  const total = totalOf(payout)
  const posting = (
    kind: PayoutPosting['kind'],
    debit: PayoutPosting['debit'],
    credit: PayoutPosting['credit'],
    minor: bigint,
  ): PayoutPosting[] => (minor === 0n ? [] : [{ kind, debit, credit, amountMinor: minor }])
  if (isNew) return posting('reservation', source, 'reserved', total)
  switch (to) {
    case 'PAID':
      return [
        // The reversal of a held payment takes it from there.
        ...posting('payment', 'reserved', source === 'held' ? 'held' : 'paid_out', amountMinor),
        ...posting('fee', 'reserved', 'fees', feeMinor),
        ...posting('duty', 'reserved', 'duty', dutyMinor),
      ]
    case 'FAILED':
    case 'REJECTED':
    case 'CANCELLED':
    case 'EXPIRED':
      return posting('release', 'reserved', releasedTo, total)
    case 'RETURNED':
      return posting(
        'return',
        'paid_out',
        source === 'unmatched' ? source : 'available',
        amountMinor,
      )
    default:
      return []
  }
}

/** What postings change in the balances that events carry. */
export function balanceChangeOf(postings: readonly PayoutPosting[]): BalanceChange {
  const changeOf = (account: string) =>
    postings.reduce(
      (sum, { debit, credit, amountMinor }) =>
        sum + (credit === account ? amountMinor : 0n) - (debit === account ? amountMinor : 0n),
      0n,
    )
  return {
    pendingMinor: changeOf('pending'),
    availableMinor: changeOf('available'),
    feesMinor: changeOf('fees'),
  }
}

/** The kind of the event that a payout of a business has when it reaches a status; undefined: none. */
export function eventKindOf(
  purpose: PayoutPurpose,
  to: PayoutStatus,
  isNew = false,
): string | undefined {
  const subject = purpose === 'REFUND' ? 'REFUND' : 'PAYOUT'
  if (isNew) return `${subject}_REQUESTED`
  switch (to) {
    case 'PAID':
    case 'FAILED':
    case 'RETURNED':
      return `${subject}_${to}`
    case 'REJECTED':
    case 'CANCELLED':
    case 'EXPIRED':
      return `${subject}_CANCELLED`
    default:
      return undefined
  }
}

/** When a paid payout is asked about again, since its payment, as its beneficiary's bank may send it back. */
export const RETURN_CHECKS_HOURS = [1, 24, 72, 168] as const

/** Until when a check that the bank did not respond to is repeated every hour. */
export const RETURN_CHECKS_MS_MAX = 14 * DAY_MS

const ASK_MS = [2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 900_000, 1_800_000]
const ASK_MS_MAX = 3_600_000

/** How long to wait before the bank is asked again. @param attempts how often it was asked without a final answer */
export function askAgainMs(attempts: number): number {
  return ASK_MS[attempts] ?? ASK_MS_MAX
}

/** The failure reason of a payout of which the bank states, after its consistency window, that it never saw it. */
export const NEVER_SEEN = 'not_found_at_bank'

/** How long an unclear payout is only asked about before an operator is called. */
export const UNCLEAR_MS_MAX = 24 * 3_600_000

/** What happened to a payout. */
export interface Step {
  readonly atMs: number
  readonly status: PayoutStatus
  /** Empty: the service itself. */
  readonly actor: string
  readonly text: string
}

/** What a pause stops: everything, a bank by its code, or a business by its id. */
export interface PauseTarget {
  readonly scope: 'GLOBAL' | 'BANK' | 'BUSINESS'
  /** Empty for GLOBAL. */
  readonly target: string
}

export interface Pause extends PauseTarget {
  readonly reason: string
  readonly pausedBy: string
  readonly pausedAtMs: number
}
