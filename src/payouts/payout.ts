import { createHash } from 'node:crypto'
import type { BankCode } from '../banks/bank.ts'
import { DAY_MS } from '../core/durations.ts'

/**
 * The status of a payout. A call of the service or a statement of the bank changes it.
 *
 *     PENDING_APPROVAL ──approved──▶ APPROVED ──claimed──▶ SUBMITTING ──the bank paid──▶ PAID ──sent back──▶ RETURNED
 *       │ rejected ▶ REJECTED          │ ▲                   │   ├─the bank refused─▶ FAILED
 *       │ cancelled ▶ CANCELLED ◀──────┘ └─nothing was sent──┘   └─anything else─▶ UNKNOWN
 *       └ in time not approved ▶ EXPIRED
 *
 *     UNKNOWN ──asked──▶ PAID, FAILED, or ──the bank does not know it, or states nothing for a day──▶ MANUAL_REVIEW
 *     MANUAL_REVIEW ──asked, or decided──▶ PAID, FAILED, UNKNOWN, or ──sent again, same reference──▶ APPROVED
 *     APPROVED, to be sent again ──an operator has the bank asked instead──▶ UNKNOWN
 *
 * For a payout in UNKNOWN the bank is only asked. A payout is sent again only from MANUAL_REVIEW, by a decision of an
 * operator, and only if the bank stated after its consistency window that it never saw the payout.
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
  // UNKNOWN: an operator had it sent again, and takes that back.
  APPROVED: ['SUBMITTING', 'CANCELLED', 'UNKNOWN'],
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

/** Whether a payout with this status no longer reserves money. A paid payout may still be returned. */
export function isFinal(status: PayoutStatus): boolean {
  return FINAL.has(status)
}

/** The purpose of a payout. */
export type PayoutPurpose = 'PAYOUT' | 'REFUND' | 'SETTLEMENT'

/**
 * The ledger account from which a payout is paid. `held`: the payout returns a held payment. A held payment is in no balance,
 * and is reversed in the commit that makes the payout PAID. `unmatched`: the payout returns an unmatched payment, which was
 * credited to no business.
 */
export type Source = 'available' | 'pending' | 'held' | 'unmatched'

/** Where the money goes. */
export interface Destination {
  /** The six-digit NIP code of the institution. */
  readonly bankCode: string
  readonly bankName: string
  readonly accountNumber: string
  /** As the bank stated it. */
  readonly accountName: string
}

/** A payout as it is stored. Times are in epoch milliseconds, amounts in kobo. */
export interface Payout {
  readonly id: string
  /** Empty: the payout returns an unmatched payment, which belongs to no business. */
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
  /** The bank that answered the name enquiry; undefined: no bank was asked. */
  readonly resolvedBank: BankCode | undefined
  readonly enquiryReference: string
  /** The bank that sends the payout; undefined until it is sent. */
  readonly bank: BankCode | undefined
  readonly bankReference: string
  readonly routing: string
  readonly sessionId: string
  /** A stable code; empty: the payout did not fail. In MANUAL_REVIEW: `NEVER_SEEN` if the bank states that. */
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
  /** The bank at which the unmatched payment arrived; empty: the payout returns no unmatched payment. */
  readonly unmatchedBank: BankCode | ''
  readonly settlementId: string
  readonly batchId: string
  /**
   * The generation of `payout_sender` in which it was certain that no bank, or only `bank`, knew the payout; 0: it never was.
   */
  readonly generation: number
}

/** Whether a requester is the business itself, by its secret key or a portal link. */
export function isBusiness(requester: string): boolean {
  return /^(secret_key:|token:plk_)/.test(requester)
}

/** The amount that is reserved for a payout: its amount, fee and duty. */
export function totalOf({
  amountMinor,
  feeMinor,
  dutyMinor,
}: Pick<Payout, 'amountMinor' | 'feeMinor' | 'dutyMinor'>): bigint {
  return amountMinor + feeMinor + dutyMinor
}

/**
 * Our reference at the bank, 25 characters: a hash of the business, the mode and the caller's reference, so it never changes.
 * If a restore loses a payout and the caller repeats the request, the new payout finds the transfer that the bank already
 * knows.
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

/** Where the money of a payout goes when it comes back, and what the settlement of its payment takes of it there. */
export interface GivenBack {
  /** `available` if the refunded payment has settled without it. */
  readonly releasedTo: Source
  /** The fee, and the sum of the shares of other businesses, in kobo. */
  readonly feeMinor: bigint
  readonly splitsMinor: bigint
}

/** A posting between two ledger accounts. */
export interface PayoutPosting {
  readonly kind:
    | 'reservation'
    | 'payment'
    | 'fee'
    | 'duty'
    | 'release'
    | 'return'
    | 'settlement_fee'
    | 'split'
  readonly debit: Source | 'reserved' | 'paid_out'
  readonly credit: Source | 'reserved' | 'paid_out' | 'fees' | 'duty' | 'splits'
  readonly amountMinor: bigint
}

/** How a change affects the balances of the business. `reserved` is computed from the payouts that are not final. */
export interface BalanceChange {
  readonly pendingMinor: bigint
  readonly availableMinor: bigint
  readonly feesMinor: bigint
}

type Money = Pick<Payout, 'source' | 'amountMinor' | 'feeMinor' | 'dutyMinor'>

/**
 * The postings that a payout makes when it reaches a status. A new payout makes its reservation (`isNew`).
 *
 * @param givenBack where money goes that was not paid, or was sent back, and what is taken of it there; absent: back to its
 * source, as a whole
 */
export function postingsOf(
  payout: Money,
  to: PayoutStatus,
  {
    isNew = false,
    givenBack = { releasedTo: payout.source, feeMinor: 0n, splitsMinor: 0n },
  }: { readonly isNew?: boolean; readonly givenBack?: GivenBack | undefined } = {},
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
  const { releasedTo } = givenBack
  const taken = [
    ...posting('settlement_fee', 'available', 'fees', givenBack.feeMinor),
    ...posting('split', 'available', 'splits', givenBack.splitsMinor),
  ]
  switch (to) {
    case 'PAID':
      return [
        // The reversal of the held payment then debits `held`.
        ...posting('payment', 'reserved', source === 'held' ? 'held' : 'paid_out', amountMinor),
        ...posting('fee', 'reserved', 'fees', feeMinor),
        ...posting('duty', 'reserved', 'duty', dutyMinor),
      ]
    case 'FAILED':
    case 'REJECTED':
    case 'CANCELLED':
    case 'EXPIRED':
      return [...posting('release', 'reserved', releasedTo, total), ...taken]
    case 'RETURNED':
      return [
        // The reversal of a held payment has debited `held`.
        ...posting('return', 'paid_out', source === 'held' ? 'available' : releasedTo, amountMinor),
        ...taken,
      ]
    default:
      return []
  }
}

/** How postings change the balances that events carry. */
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

/** The kind of the event that is published when a payout reaches a status; undefined: no event. */
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

/**
 * When the bank is asked again about a paid payout, in hours after the payment: the beneficiary's bank may send the money
 * back.
 */
export const RETURN_CHECKS_HOURS = [1, 24, 72, 168] as const

/** How long after the payment a check is repeated every hour if the bank does not respond. */
export const RETURN_CHECKS_MS_MAX = 14 * DAY_MS

/** When the bank is asked again if its list is still being read. */
export const READING_MS = 5_000

const ASK_MS = [2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 900_000, 1_800_000]
const ASK_MS_MAX = 3_600_000

/** How long to wait before the bank is asked again. @param attempts how often the bank gave no final answer */
export function askAgainMs(attempts: number): number {
  return ASK_MS[attempts] ?? ASK_MS_MAX
}

/** The failure reason if the bank states, after its consistency window, that it never saw the payout. */
export const NEVER_SEEN = 'not_found_at_bank'

/** How long the bank is asked about a payout without a result before the payout goes to manual review. */
export const UNCLEAR_MS_MAX = 24 * 3_600_000

/** One step in the history of a payout. */
export interface Step {
  readonly atMs: number
  readonly status: PayoutStatus
  /** Empty: the service itself acted. */
  readonly actor: string
  readonly text: string
}

/** The payouts that a pause stops: all payouts, the payouts through a bank (by code), or those of a business (by id). */
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
