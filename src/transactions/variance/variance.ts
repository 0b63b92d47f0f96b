import { type AllowedPayer, areNamesAlike, type PaymentTerms } from '../../accounts/terms.ts'

/** How a payment differs from the terms of its account. */
export const VARIANCES = [
  'NONE',
  'UNDERPAID',
  'OVERPAID',
  'EXPIRED',
  'REPEATED',
  'PAYER_NOT_ALLOWED',
] as const

export type Variance = (typeof VARIANCES)[number]

/** The payer as the bank reports it; unknown fields are empty. */
interface ReportedPayer {
  readonly name: string
  readonly accountNumber: string
  readonly bankCode: string
}

/**
 * Decides how a payment differs from the terms of its account. If it differs in several ways, what the business
 * cannot undo comes first: the order is paid for, the account has expired, a stranger paid, the amount is wrong.
 *
 * The payment time that the bank states decides whether a payment is late. Banks report some payments late, and a payer who
 * paid in time has kept the terms, even if the account has expired in the meantime.
 *
 * @param isUsed whether a payment has used the account up
 */
export function varianceOf(
  terms: PaymentTerms,
  isUsed: boolean,
  payment: {
    readonly amountMinor: bigint
    readonly paidAtMs: number
    readonly payer: ReportedPayer
  },
): Variance {
  if (terms.singleUse && isUsed) return 'REPEATED'
  const { expiresAtMs } = terms
  if (expiresAtMs !== undefined && payment.paidAtMs >= expiresAtMs) return 'EXPIRED'
  if (!isAllowed(terms.allowedPayers, payment.payer)) return 'PAYER_NOT_ALLOWED'
  return amountVarianceOf(terms, payment.amountMinor)
}

function amountVarianceOf(
  { expectedAmountMinor, amountRule }: PaymentTerms,
  amountMinor: bigint,
): Variance {
  if (expectedAmountMinor === undefined || amountRule === 'ANY') return 'NONE'
  if (amountMinor < expectedAmountMinor) return amountRule === 'AT_MOST' ? 'NONE' : 'UNDERPAID'
  if (amountMinor > expectedAmountMinor) return amountRule === 'AT_LEAST' ? 'NONE' : 'OVERPAID'
  return 'NONE'
}

function isAllowed(allowed: readonly AllowedPayer[], payer: ReportedPayer): boolean {
  return allowed.length === 0 || allowed.some((each) => isSamePayer(each, payer))
}

/** If the bank reports no bank code of the payer, the account number alone decides. */
function isSamePayer(allowed: AllowedPayer, payer: ReportedPayer): boolean {
  if ('name' in allowed) return areNamesAlike(allowed.name, payer.name)
  const isSameBank =
    allowed.bankCode === '' || payer.bankCode === '' || allowed.bankCode === payer.bankCode
  return payer.accountNumber === allowed.accountNumber && isSameBank
}

/**
 * The state of a payment with a variance. It counts towards no balance while it is held.
 *
 *     HELD ──the business accepts it──▶ ACCEPTED
 *       ├──the business asks to return it──▶ RETURN_REQUESTED ──the return is complete──▶ RETURNED
 *       └──reversed──▶ RETURNED
 */
export type HoldState = 'HELD' | 'ACCEPTED' | 'RETURN_REQUESTED' | 'RETURNED'

/** How a payment into a one-time account differs from the terms, and the state of its hold. */
export interface PaymentVariance {
  readonly variance: Variance
  /** Undefined if the variance is NONE. */
  readonly hold: HoldState | undefined
  /** When its hold ended; undefined while it is held, and if it never was. */
  readonly decidedAtMs: number | undefined
  /** Why the business asked to return it; empty if it gave no reason, or did not ask. */
  readonly returnReason: string
}

/** The state of a payment when it is recorded. */
export function newVariance(variance: Variance): PaymentVariance {
  const hold = variance === 'NONE' ? undefined : 'HELD'
  return { variance, hold, decidedAtMs: undefined, returnReason: '' }
}

/** The state of a payment once it is reversed. */
export function returnedOf(
  variance: PaymentVariance | undefined,
  nowMs: number,
): PaymentVariance | undefined {
  const isHeld = variance?.hold === 'HELD' || variance?.hold === 'RETURN_REQUESTED'
  return isHeld ? { ...variance, hold: 'RETURNED', decidedAtMs: nowMs } : variance
}

/** The decision about a payment whose money has arrived, made while its account is locked. */
export interface Decided {
  /** Null: the money has not arrived, or its account is permanent. */
  readonly variance: Variance | null
  /** Null: it is credited. */
  readonly hold: HoldState | null
  /** Whether it uses up its single-use account. */
  readonly isUse: boolean
}

/** The decision about a payment into a permanent account, or a payment whose money has not arrived. */
export const CREDITED: Decided = { variance: null, hold: null, isUse: false }
