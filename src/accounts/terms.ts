import { type Fault, invalidFields } from '../core/errors.ts'

/** How the amount of a payment has to compare with the expected amount. */
export const AMOUNT_RULES = ['ANY', 'EXACT', 'AT_LEAST', 'AT_MOST'] as const

export type AmountRule = (typeof AMOUNT_RULES)[number]

/** A payer who may pay: an account, at one bank or at any, or a name. */
export type AllowedPayer =
  | {
      readonly accountNumber: string
      /** Empty: any bank. */
      readonly bankCode: string
    }
  /** Two words of this name must be in the payer's name. */
  | { readonly name: string }

/** Data of the business about an account, which responses and events return. */
export type Metadata = Readonly<Record<string, string>>

/** The terms that payments into a one-time account have to meet. A permanent account has no terms. */
export interface PaymentTerms {
  /** Kobo; undefined: no amount is expected, and the rule is ANY. */
  readonly expectedAmountMinor: bigint | undefined
  readonly amountRule: AmountRule
  readonly expiresAtMs: number | undefined
  /** Whether the first payment that is as expected, or accepted, uses the account up. */
  readonly singleUse: boolean
  /** Empty: anybody may pay. */
  readonly allowedPayers: readonly AllowedPayer[]
}

/** Terms as a business requests them. */
export interface RequestedTerms extends PaymentTerms {
  /** The time from creation to expiry, if that was requested: `expiresAtMs` is then undefined. */
  readonly expiresInSeconds: number | undefined
}

/** Stored terms, with the progress of the account. */
export interface AccountTerms extends PaymentTerms {
  readonly expiresInSeconds: number | undefined
  readonly usedAtMs: number | undefined
  readonly endedAtMs: number | undefined
}

/** The latest expiry: this long after creation. */
const EXPIRES_IN_SECONDS_MAX = 31_622_400

/** When an account expires whose terms are requested now. */
export function expiryOf(
  terms: Pick<RequestedTerms, 'expiresAtMs' | 'expiresInSeconds'>,
  nowMs: number,
): number | undefined {
  const { expiresAtMs, expiresInSeconds } = terms
  return expiresInSeconds === undefined ? expiresAtMs : nowMs + expiresInSeconds * 1_000
}

/** Why a new expiry is refused; undefined if it is allowed. */
export function newExpiryFault(expiresAtMs: number, nowMs: number): Fault | undefined {
  const refuse = (message: string) => invalidFields([{ field: 'expiresAt', message }])
  if (expiresAtMs <= nowMs) return refuse('must be in the future')
  const isTooFar = expiresAtMs > nowMs + EXPIRES_IN_SECONDS_MAX * 1_000
  return isTooFar ? refuse('must be within 366 days') : undefined
}

/** Terms and metadata as one text, which is equal only for equal terms and metadata. */
export function termsText(
  terms: RequestedTerms | undefined,
  metadata: Metadata | undefined,
): string | undefined {
  if (terms === undefined && metadata === undefined) return undefined
  return JSON.stringify([
    terms === undefined
      ? null
      : [
          `${terms.expectedAmountMinor ?? ''}`,
          terms.amountRule,
          // A repeated request with an expiry in seconds is the same request, although the time of expiry is not.
          terms.expiresInSeconds === undefined ? (terms.expiresAtMs ?? null) : null,
          terms.expiresInSeconds ?? null,
          terms.singleUse,
          terms.allowedPayers.map((payer) =>
            'name' in payer ? [payer.name] : [payer.accountNumber, payer.bankCode],
          ),
        ],
    Object.entries(metadata ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)),
  ])
}

/** Options of a validated request to open an account. */
interface TermsOptions extends Omit<RequestedTerms, 'amountRule' | 'allowedPayers'> {
  /** Undefined: EXACT if an amount is expected, otherwise ANY. */
  readonly amountRule: AmountRule | undefined
  /** Each has an account number or a name; the other field is empty. */
  readonly allowedPayers: readonly {
    readonly accountNumber: string
    readonly bankCode: string
    readonly name: string
  }[]
}

/**
 * The terms that a business requests; undefined: a permanent account.
 *
 * @throws Fault validation_failed (a name that no payer's name can be compared with)
 */
export function toRequestedTerms(options: TermsOptions): RequestedTerms | undefined {
  const faults = options.allowedPayers.flatMap(({ name }, index) => {
    if (name === '' || wordsOf(name).size >= COMMON_MIN) return []
    const message =
      'must have two words of two letters or more, other than titles like "Mr" and "Ltd"'
    return [{ field: `allowedPayers[${index}].name`, message }]
  })
  if (faults.length > 0) throw invalidFields(faults)
  const { expectedAmountMinor, expiresAtMs, expiresInSeconds, singleUse } = options
  const amountRule = options.amountRule ?? (expectedAmountMinor === undefined ? 'ANY' : 'EXACT')
  const allowedPayers = options.allowedPayers.map(
    ({ name, accountNumber, bankCode }): AllowedPayer =>
      name === '' ? { accountNumber, bankCode } : { name },
  )
  const isPermanent =
    expectedAmountMinor === undefined &&
    amountRule === 'ANY' &&
    expiresAtMs === undefined &&
    expiresInSeconds === undefined &&
    !singleUse &&
    allowedPayers.length === 0
  if (isPermanent) return undefined
  return {
    expectedAmountMinor,
    amountRule,
    expiresAtMs,
    expiresInSeconds,
    singleUse,
    allowedPayers,
  }
}

/** Undefined if there are no pairs. */
export function metadataOf(pairs: Metadata): Metadata | undefined {
  return Object.keys(pairs).length === 0 ? undefined : { ...pairs }
}

/**
 * Words that many names share: titles, and the legal forms and trades of companies. Two of these words in common do not
 * make two names alike.
 */
const COMMON_WORDS: ReadonlySet<string> = new Set(
  (
    'MR MRS MS MISS MASTER DR PROF REV PASTOR ENGR BARR CHIEF PRINCE PRINCESS ALHAJI ALHAJA MALLAM HAJIA SIR LADY ' +
    'AND THE OF FOR LTD LIMITED PLC LLC INC CO COMPANY NIG NIGERIA ENT ENTERPRISE ENTERPRISES VENTURES GLOBAL ' +
    'INTERNATIONAL SERVICES GROUP HOLDINGS'
  ).split(' '),
)

/**
 * The words of a name that distinguish it, in upper case and without accents: "Mr. Ọbi, Àdá K." → OBI, ADA. Words
 * of one letter are initials.
 */
export function wordsOf(name: string): ReadonlySet<string> {
  const words = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toUpperCase()
    .split(/[^\p{L}\p{N}]+/u)
  return new Set(words.filter((word) => [...word].length >= 2 && !COMMON_WORDS.has(word)))
}

/** How many words two names must have in common. */
const COMMON_MIN = 2

/** Whether two names have two words in common. */
export function areNamesAlike(a: string, b: string): boolean {
  const words = wordsOf(b)
  return [...wordsOf(a)].filter((word) => words.has(word)).length >= COMMON_MIN
}
