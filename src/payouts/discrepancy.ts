import { BANK_FACTS, type BankCode } from '../banks/bank.ts'
import type { OutgoingLine } from '../banks/transfer.ts'
import { formatAmount } from '../core/money.ts'
import type { Payout, PayoutStatus } from './payout.ts'

/**
 * How the transfers of a bank differ from the payouts: the bank does not show a payout, a transfer has no payout, the
 * details or results differ, or the bank shows several transfers for one payout.
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
  /** Identifies the transfer at the bank: see `lineKeyOf`. */
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
  /** Undefined: it is unresolved. */
  readonly resolvedAtMs: number | undefined
  readonly resolvedBy: string
  readonly note: string
}

/** The bank and mode whose outgoing transfers are compared. */
export interface ListedBank {
  readonly bank: BankCode
  readonly live: boolean
}

/** An outgoing transfer; a statement may lack its reference, its account and its time. */
export type Line = Omit<OutgoingLine, 'atMs'> & { readonly atMs: number | undefined }

/** For each state of a line, the payout statuses that it does not contradict. A pending line contradicts no status. */
const AGREES: Readonly<Record<'paid' | 'failed' | 'returned', ReadonlySet<PayoutStatus>>> = {
  paid: new Set(['PAID', 'RETURNED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW']),
  // APPROVED: a failed transfer may be sent again under the same reference.
  failed: new Set(['FAILED', 'RETURNED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW', 'APPROVED']),
  // FAILED: some banks call a failed transfer returned.
  returned: new Set(['PAID', 'RETURNED', 'FAILED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW']),
}

/** Describes how a line differs from its payout; undefined: it does not. */
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

/** Whether the line shows a result that the payout lacks, so that the bank has to be asked now. */
export function needsAsking(status: PayoutStatus, { state }: Line): boolean {
  if (state === 'pending') return false
  if (status === 'PAID') return state === 'returned'
  return status === 'UNKNOWN' || status === 'MANUAL_REVIEW'
}

/** The form of our references at banks: see `bankReferenceOf`. */
const OWN_REFERENCE = /^[0-9A-Z]{25}$/i

export function missingHere(of: ListedBank, line: Line): NewDiscrepancy {
  const { reference, sessionId, amountMinor, accountNumber } = line
  const whose = OWN_REFERENCE.test(reference)
    ? 'Its reference looks like a reference of Inflow: the database may have been restored'
    : 'Its reference was not made by Inflow'
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
  const facts = { ...factsOf(of, line), lineKey: payout.bankReference }
  return { ...facts, kind: 'MISMATCHED', payoutId: payout.id, text }
}

function factsOf(of: ListedBank, line: Line): Omit<NewDiscrepancy, 'kind' | 'payoutId' | 'text'> {
  const { reference, sessionId, amountMinor, accountNumber } = line
  const lineKey = lineKeyOf(line)
  return { ...of, lineKey, bankReference: reference, sessionId, amountMinor, accountNumber }
}

/**
 * The key of a transfer at its bank: our reference, or else its session id. Other references may repeat, as that of a rent
 * that is paid at the bank's portal. Without a session id, the key is what the line states, so that each transfer is a
 * difference of its own.
 */
function lineKeyOf({ reference, sessionId, amountMinor, accountNumber, atMs }: Line): string {
  if (OWN_REFERENCE.test(reference)) return reference
  return sessionId || `${reference || 'unnamed'} ${amountMinor} ${accountNumber} ${atMs ?? ''}`
}

/** @param count how many transfers the bank shows; more than `sessions` if the bank does not state session ids */
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

/** The fields of a difference that are taken from the payout. */
export function factsOfPayout(
  of: ListedBank,
  { id, bankReference, sessionId, amountMinor, destination }: Payout,
): Omit<NewDiscrepancy, 'kind' | 'text'> {
  const { accountNumber } = destination
  const facts = { bankReference, sessionId, amountMinor, accountNumber }
  return { ...of, ...facts, lineKey: bankReference, payoutId: id }
}
