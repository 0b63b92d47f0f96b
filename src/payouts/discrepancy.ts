import { BANK_FACTS, type BankCode } from '../banks/bank.ts'
import type { OutgoingLine } from '../banks/transfer.ts'
import { formatAmount } from '../core/money.ts'
import type { Payout, PayoutStatus } from './payout.ts'

/**
 * What differs between what a bank sent out and the payouts: a payout that it does not show, a transfer without a
 * payout, other details or another result, or two transfers for one payout.
 */
export type DiscrepancyKind = 'MISSING_AT_BANK' | 'MISSING_HERE' | 'MISMATCHED' | 'PAID_TWICE'

export const DISCREPANCY_KINDS: readonly DiscrepancyKind[] = [
  'MISSING_AT_BANK',
  'MISSING_HERE',
  'MISMATCHED',
  'PAID_TWICE',
]

/** A difference as it was found. */
export interface NewDiscrepancy {
  readonly kind: DiscrepancyKind
  readonly bank: BankCode
  readonly live: boolean
  /** Names the transfer at the bank: our reference, or its session id where it has none. */
  readonly lineKey: string
  readonly bankReference: string
  readonly sessionId: string
  /** Empty: there is no payout. */
  readonly payoutId: string
  readonly amountMinor: bigint
  readonly accountNumber: string
  readonly text: string
}

/** A stored difference. */
export interface Discrepancy extends NewDiscrepancy {
  readonly id: string
  /** Empty: there is no payout. */
  readonly businessId: string
  readonly foundAtMs: number
  /** Undefined: it waits. */
  readonly resolvedAtMs: number | undefined
  readonly resolvedBy: string
  readonly note: string
}

/** Whose outgoing transfers are compared. */
export interface ListedBank {
  readonly bank: BankCode
  readonly live: boolean
}

/** An outgoing transfer; a statement may lack its reference, its account and its time. */
export type Line = Omit<OutgoingLine, 'atMs'> & { readonly atMs: number | undefined }

/** What a line may state of a payout with a status; a line that is not finished contradicts none. */
const AGREES: Readonly<Record<'paid' | 'failed' | 'returned', ReadonlySet<PayoutStatus>>> = {
  paid: new Set(['PAID', 'RETURNED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW']),
  // One that failed may be sent again under the same reference.
  failed: new Set(['FAILED', 'RETURNED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW', 'APPROVED']),
  // Some banks call a failed transfer so.
  returned: new Set(['PAID', 'RETURNED', 'FAILED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW']),
}

/** What a line states otherwise than the payout, in words; undefined: nothing. */
export function differenceOf(
  { bank, live }: ListedBank,
  payout: Payout,
  line: Line,
): string | undefined {
  const { amountMinor, accountNumber, state } = line
  const isWhole = /^\d{10}$/.test(accountNumber)
  const differences = [
    payout.live !== live && `it is a payout of ${payout.live ? 'live' : 'test'} mode`,
    payout.bank !== undefined &&
      payout.bank !== bank &&
      `it was sent through ${BANK_FACTS[payout.bank].name}`,
    amountMinor !== payout.amountMinor &&
      `NGN ${formatAmount(amountMinor)} instead of ${formatAmount(payout.amountMinor)}`,
    isWhole &&
      accountNumber !== payout.destination.accountNumber &&
      `to ${accountNumber} instead of ${payout.destination.accountNumber}`,
    state !== 'pending' &&
      !AGREES[state].has(payout.status) &&
      `it is ${state} there and ${payout.status} here`,
  ].filter((difference) => difference !== false)
  return differences.length === 0 ? undefined : differences.join(', ')
}

/** Whether the bank is asked now, as the line shows a result that the payout lacks. */
export function needsAsking(status: PayoutStatus, { state }: Line): boolean {
  if (state === 'pending') return false
  if (status === 'PAID') return state === 'returned'
  return status === 'UNKNOWN' || status === 'MANUAL_REVIEW'
}

/** Our references at banks: see `bankReferenceOf`. */
const OWN_REFERENCE = /^[0-9A-Z]{25}$/i

export function missingHere(of: ListedBank, line: Line): NewDiscrepancy {
  const { reference, sessionId, amountMinor, accountNumber } = line
  const whose = OWN_REFERENCE.test(reference)
    ? 'Its reference is like those of Inflow: the database may have been restored'
    : 'Its reference is none of Inflow'
  const text = `${BANK_FACTS[of.bank].name} sent NGN ${formatAmount(amountMinor)} to ${accountNumber || 'an unknown account'}, and no payout has its reference. ${whose}.`
  return { ...factsOf(of, line), kind: 'MISSING_HERE', payoutId: '', sessionId, text }
}

export function mismatch(
  of: ListedBank,
  payout: Payout,
  line: Line,
  difference: string,
): NewDiscrepancy {
  const text = `${BANK_FACTS[of.bank].name} shows the payout otherwise: ${difference}.`
  return { ...factsOf(of, line), kind: 'MISMATCHED', payoutId: payout.id, text }
}

function factsOf(
  of: ListedBank,
  { reference, sessionId, amountMinor, accountNumber }: Line,
): Omit<NewDiscrepancy, 'kind' | 'payoutId' | 'text'> {
  const lineKey = reference || sessionId
  return { ...of, lineKey, bankReference: reference, sessionId, amountMinor, accountNumber }
}

/** @param count how many transfers the bank shows; more than the sessions if it does not name these */
export function paidTwice(
  of: ListedBank,
  payout: Payout,
  sessions: readonly string[],
  count = sessions.length,
): NewDiscrepancy {
  const name = BANK_FACTS[of.bank].name
  const named = sessions.length > 0 ? `, with the sessions ${sessions.slice(0, 5).join(', ')}` : ''
  return {
    ...factsOfPayout(of, payout),
    kind: 'PAID_TWICE',
    text: `${name} shows ${count} transfers for the payout${named}.`,
  }
}

/** The facts of a difference that is known from the payout. */
export function factsOfPayout(
  of: ListedBank,
  { id, bankReference, sessionId, amountMinor, destination }: Payout,
): Omit<NewDiscrepancy, 'kind' | 'text'> {
  const { accountNumber } = destination
  const facts = { bankReference, sessionId, amountMinor, accountNumber }
  return { ...of, ...facts, lineKey: bankReference, payoutId: id }
}
