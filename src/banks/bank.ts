import { Fault, type FieldFault } from '../core/errors.ts'
import type { TransferConnector } from './transfer.ts'

/** The codes by which businesses name the banks. */
export const BANK_CODES = ['9PSB', 'SAFEHAVEN', 'PROVIDUS', 'PALMPAY'] as const

export type BankCode = (typeof BANK_CODES)[number]

/** Facts about a bank that do not depend on its connector. */
interface BankFacts {
  /** Display name, unless `BANK_<CODE>_NAME` is set. */
  readonly name: string
  /** The six-digit code, as in interbank session ids. */
  readonly interbankCode: string
  /** The code for NUBAN check digits: three digits for banks, six for other institutions. */
  readonly nubanCode: string
}

/** The facts about each bank. The codes come from the lists of the interbank switch and of the central bank, which differ. */
export const BANK_FACTS: Readonly<Record<BankCode, BankFacts>> = {
  '9PSB': { name: '9 Payment Service Bank', interbankCode: '120001', nubanCode: '120001' },
  SAFEHAVEN: { name: 'Safe Haven Microfinance Bank', interbankCode: '090286', nubanCode: '951113' },
  PROVIDUS: { name: 'Providus Bank', interbankCode: '000023', nubanCode: '101' },
  PALMPAY: { name: 'PalmPay', interbankCode: '100033', nubanCode: '999991' },
}

/** The names of the banks that businesses and payers see: from the settings, or by default from the facts. */
export type BankNames = Readonly<Record<BankCode, string>>

/** Kinds of identity numbers. */
export const ID_KINDS = ['nin', 'bvn'] as const

export type IdKind = (typeof ID_KINDS)[number]

/** A verification of the customer that the bank itself has completed or begun. */
export interface Verification {
  /** The bank's id of the verification. */
  readonly identityId: string
  /** The code that the bank sent to the customer, valid once; empty if the verification is complete. */
  readonly otp: string
}

/** The terms for payments into an account that a bank may be able to enforce. */
export interface OrderTerms {
  /** Kobo; undefined: no amount is expected, and the rule is ANY. */
  readonly expectedAmountMinor: bigint | undefined
  readonly amountRule: 'ANY' | 'EXACT' | 'AT_LEAST' | 'AT_MOST'
  readonly expiresAtMs: number | undefined
}

/** The account to open. */
export interface AccountOrder {
  readonly bank: BankCode
  /** Our reference, `R-…`, for banks that accept one. It is the same at every attempt. */
  readonly reference: string
  readonly accountName: string
  readonly firstName: string
  readonly lastName: string
  readonly email: string
  readonly phone: string
  readonly idType: IdKind | undefined
  readonly idNumber: string | undefined
  readonly verification?: Verification | undefined
  /** Undefined: a permanent account. Terms that the bank cannot enforce are checked when payments are recorded. */
  readonly terms?: OrderTerms | undefined
  /** The number of this attempt, beginning with 1; earlier attempts count whatever their results. */
  readonly attempt: number
  /** Whether an earlier attempt may have opened the account. */
  readonly repeated: boolean
}

/** The next step when the result of an opening is unknown. */
export type NextStep =
  /** The bank recognises our reference: a retry cannot open a second account. */
  | 'retry'
  /** The bank can report the result: see `findOpened`. */
  | 'requery'
  /** The bank can do neither: an operator has to decide. */
  | 'manual review'

/** The scope of a refusal whose cause remains until an operator or the bank removes it. */
export type Refusal =
  /** Only this request is refused, for example because of a field that the operator's settings add to it. */
  | 'request'
  /** Every request is refused: the bank does not accept our credentials, our signature or our address. */
  | 'access'

/** The result of an order to open an account. */
export type AccountResult =
  | {
      readonly kind: 'opened'
      readonly accountNumber: string
      readonly accountName: string
      /** The bank's own id of the account if its API requires one; otherwise empty. */
      readonly bankAccountId: string
    }
  /** The bank rejected the customer's details and opened nothing. */
  | { readonly kind: 'rejected'; readonly fields: readonly FieldFault[] }
  /** Nothing was opened, so a retry is safe. Without `refusal`, the failure is temporary. */
  | { readonly kind: 'unavailable'; readonly cause: string; readonly refusal?: Refusal }
  /** The bank may or may not have opened an account. */
  | {
      readonly kind: 'unknown'
      readonly cause: string
      readonly next: NextStep
      readonly refusal?: 'access'
    }

export function manualReview(cause: string): AccountResult {
  return { kind: 'unknown', cause, next: 'manual review' }
}

/** An open account, with the bank's identifiers. */
export interface AccountAtBank {
  /** Our reference, `R-…`. */
  readonly reference: string
  readonly accountNumber: string
  readonly bankAccountId: string
}

/** A reported payment: as a bank describes it, before it is matched to an account. */
export interface BankPayment {
  /** The bank's unique key of the payment, used to find duplicates. */
  readonly bankKey: string
  /** The interbank id of the transfer; the bank's key if there is none. */
  readonly sessionId: string
  readonly accountNumber: string
  /** Kobo. */
  readonly amountMinor: bigint
  /** Undefined if the bank sends no valid time. */
  readonly paidAtMs: number | undefined
  readonly payer: {
    readonly name: string
    readonly accountNumber: string
    readonly bankCode: string
    readonly bankName: string
  }
  readonly narration: string
}

/** A bank's callback, as received. */
export interface BankNotification {
  /** The headers by lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly rawBody: Buffer
  /** The path segment after `notifications/`; empty if there is none. */
  readonly pathSecret: string
}

/** The result of reading a notification. */
export type Reading =
  | {
      readonly kind: 'payment'
      readonly payment: BankPayment
      /** Whether a signature covers every field, so that the requery can be skipped. */
      readonly bound: boolean
    }
  /** The bank reversed a payment. */
  | { readonly kind: 'reversal'; readonly payment: BankPayment; readonly bound: boolean }
  /** Authentic, but not a payment into a virtual account: acknowledged and dropped. */
  | { readonly kind: 'ignored'; readonly cause: string }
  /** Not authentic: changes nothing and is not stored. */
  | { readonly kind: 'unauthenticated'; readonly cause: string }
  /** Authentic, but cannot be parsed: queued for manual review. */
  | { readonly kind: 'malformed'; readonly cause: string }

/** The result of a notification; each connector maps it to its bank's codes. */
export type NotificationOutcome =
  | 'RECORDED'
  | 'DUPLICATE'
  | 'UNMATCHED'
  /** In manual review: it conflicts with the recorded payment, or cannot be parsed. */
  | 'MANUAL_REVIEW'
  | 'IGNORED'
  | 'UNAUTHENTICATED'
  /** The bank did not confirm the payment when requeried. */
  | 'UNCONFIRMED'
  /** We failed, or the bank could not be requeried: the bank has to send the notification again. */
  | 'RETRY'

/** Our response to a notification, in the bank's format. */
export interface Acknowledgement {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

/** A bank's response to a requery. */
export type Requery =
  | { readonly kind: 'confirmed'; readonly payment: BankPayment }
  | { readonly kind: 'reversed'; readonly payment: BankPayment }
  | { readonly kind: 'denied'; readonly cause: string }
  /** There was no response, or an ambiguous one. */
  | { readonly kind: 'unknown'; readonly cause: string; readonly refusal?: 'access' }

/** The result of closing an account. */
export type Closing =
  | { readonly kind: 'closed' }
  | { readonly kind: 'unavailable'; readonly cause: string; readonly refusal?: 'access' }

/** A page of the payments of a period. */
export interface PaymentPage {
  readonly payments: readonly BankPayment[]
  /** The token of the next page; undefined on the last page. */
  readonly next: string | undefined
  /** Whether the bank may have earlier payments of the period, which it does not list. */
  readonly isCut?: boolean | undefined
}

export interface PaymentListing {
  readonly fromMs: number
  /** Exclusive. */
  readonly toMs: number
  /** Undefined for the first page. */
  readonly page: string | undefined
  /** Set if the connector's `listing` is `by account`. */
  readonly account: AccountAtBank | undefined
}

/**
 * The connection to one bank. Its methods return every failure of the bank as a result, including time-outs. They throw only
 * because of our own bugs.
 */
export interface BankConnector {
  openAccount(order: AccountOrder, signal: AbortSignal): Promise<AccountResult>
  /** The next step if our process crashed, or could not store the result of an opening. */
  readonly afterCrash: NextStep
  /**
   * Asks the bank for the result of an opening; absent if the bank has no such call. Returns
   * `unavailable` only if the bank states that it opened nothing; otherwise `unknown`.
   */
  readonly findOpened?: (order: AccountOrder, signal: AbortSignal) => Promise<AccountResult>
  /**
   * Asks the bank for the account with a number that an operator learned; absent if the bank has no
   * such call. Returns `opened` only if the account belongs to the order.
   */
  readonly findNumber?: (
    order: AccountOrder,
    accountNumber: string,
    signal: AbortSignal,
  ) => Promise<AccountResult>
  /** Whether the bank itself closes an account at the expiry with which the account was opened. */
  readonly fixesExpiry?: true
  /** Absent if the bank cannot close accounts: the account is then blocked on our side. */
  readonly closeAccount?: (account: AccountAtBank, signal: AbortSignal) => Promise<Closing>
  /** Absent if payouts through this bank are not possible, for example because the operational account is not set. */
  readonly transfers?: TransferConnector
}

/** A connector to a real bank. */
export interface LiveConnector extends BankConnector {
  /** Authenticates and parses a notification. Pure: it sends no request. */
  read(notification: BankNotification): Reading
  acknowledge(outcome: NotificationOutcome, notification: BankNotification): Acknowledgement
  requery(payment: BankPayment, signal: AbortSignal): Promise<Requery>
  /** Whether the bank lists the payments of a period as a whole or by account; absent if it cannot list them. */
  readonly listing?: 'by bank' | 'by account'
  readonly listPayments?: (listing: PaymentListing, signal: AbortSignal) => Promise<PaymentPage>
}

/** The connector that opens an account: the simulated bank of this process, or the connector to the real bank. */
export type ConnectorName = 'sandbox' | 'live'

/** The connector that serves a bank. Its name is stored with the accounts that it opens. */
export interface NamedConnector {
  readonly name: ConnectorName
  readonly connector: BankConnector
  /** How long one call of the connector may take, with all of its requests. */
  readonly callTimeoutMs: number
}

/**
 * Returns the connector that serves a bank in a mode; in test mode, this is the sandbox. Undefined if
 * the bank is not live and must not be simulated in live mode.
 */
export type BankOf = (account: {
  readonly bank: BankCode
  readonly live: boolean
}) => NamedConnector | undefined

/** Whether the sandbox serves a bank in live mode, where it invents account numbers. */
export type IsSimulated = (bank: BankCode) => boolean

/** The banks at which the session id is also the bank's key of a payment. */
export const KEYED_BY_SESSION: ReadonlySet<BankCode> = new Set(['9PSB', 'SAFEHAVEN'])

/** When to retry after denied access: an operator has to act first, which takes minutes. */
const RETRY_AFTER_SECONDS = 300

/** Marks a result as denied access; see `Refusal`. */
export const DENIED = { refusal: 'access' } as const

/** The result of a call that gave no usable response. */
export function failure<Kind extends string>(
  kind: Kind,
  reply: { readonly kind: string; readonly cause: string },
) {
  return { kind, cause: reply.cause, ...(reply.kind === 'denied' && DENIED) }
}

/**
 * The fault of a call if a bank denies this service access. The caller cannot correct the operator's settings, and an
 * immediate retry would fail again.
 *
 * @param cause the bank's response, for the log
 */
export function accessDenied(cause: unknown): Fault {
  const text =
    'The bank denies this service access, and its operator has to restore it; repeat the request later'
  return new Fault('bank_unavailable', text, { retryAfterSeconds: RETRY_AFTER_SECONDS, cause })
}
