import type {
  AccountResult,
  BankCode,
  ConnectorName,
  IdKind,
  IsSimulated,
  NextStep,
  Refusal,
  Verification,
} from '../banks/bank.ts'
import { backoffMs } from '../core/backoff.ts'
import type { FieldFault } from '../core/errors.ts'
import { type Split, splitText } from './splits/split.ts'
import { type AccountTerms, type Metadata, type RequestedTerms, termsText } from './terms.ts'

/**
 * The states of an account.
 *
 *     PENDING ──bank confirmed──▶ ACTIVE ──closed──▶ CLOSED
 *        │                          └──expired or used up──▶ EXPIRED ──closed──▶ CLOSED
 *        └──bank rejected the customer──▶ (deleted: nothing was opened)
 *
 * Only a one-time account becomes EXPIRED. Payments into it are still recorded. `OPENING_STATES` has the states of the
 * opening of a PENDING account.
 */
export const ACCOUNT_STATUSES = ['PENDING', 'ACTIVE', 'CLOSED', 'EXPIRED'] as const

export type AccountStatus = (typeof ACCOUNT_STATUSES)[number]

/** The account details that a business requests. */
export interface AccountDetails {
  readonly bank: BankCode
  readonly firstName: string
  readonly lastName: string
  readonly email: string
  readonly phone: string
  readonly idType: IdKind | undefined
  readonly idNumber: string | undefined
  /** Undefined: a permanent account, which accepts any payment. */
  readonly terms?: RequestedTerms | undefined
  /** Undefined if the business gave none. */
  readonly metadata?: Metadata | undefined
  /** Undefined: the owner keeps everything. */
  readonly split?: Split | undefined
}

/**
 * An account that the bank has opened. Only its status, the customer's details and the progress of a one-time account
 * ever change. A one-time account never becomes permanent, nor a permanent account a one-time account.
 */
export interface OpenAccount {
  readonly id: string
  readonly businessId: string
  /** True in live mode, false in test mode. */
  readonly live: boolean
  readonly reference: string
  readonly merchantReference: string
  readonly bank: BankCode
  /** The connector that opened the account, or was last asked to. */
  readonly connector: ConnectorName
  readonly accountNumber: string
  readonly accountName: string
  readonly status: AccountStatus
  readonly firstName: string
  readonly lastName: string
  readonly email: string
  readonly phone: string
  readonly createdAtMs: number
  /** Undefined: a permanent account. */
  readonly terms: AccountTerms | undefined
  readonly metadata: Metadata | undefined
  /** When it was imported; undefined: this service opened it. */
  readonly importedAtMs: number | undefined
}

/** An account before its bank has opened it. */
export type RequestedAccount = Omit<
  OpenAccount,
  'accountNumber' | 'accountName' | 'status' | 'importedAtMs'
>

/** A stored account in any state. */
export interface StoredAccount extends Omit<OpenAccount, 'accountNumber' | 'accountName'> {
  readonly accountNumber: string | undefined
  readonly accountName: string | undefined
  /** The bank's own identifier of the account; empty if the bank has none. */
  readonly bankAccountId: string
  readonly detailsHash: Uint8Array
  /** The state of the opening while the account is PENDING. */
  readonly openingState: OpeningState
  /** Why the latest attempt did not open the account. */
  readonly lastCause: string
  /** When the service next tries to open the account; undefined: it does not. */
  readonly nextTryAtMs: number | undefined
  /** How many times the bank was asked to open the account. */
  readonly attempts: number
}

export function isOpened(account: StoredAccount): account is StoredAccount & OpenAccount {
  return account.status !== 'PENDING'
}

/**
 * Whether payments may be credited to an account. The sandbox invents the numbers of its live accounts, so a payment that
 * a real bank reports for such a number is a stranger's money.
 */
export function isCreditable(
  { live, connector, bank }: Pick<OpenAccount, 'live' | 'connector' | 'bank'>,
  isSimulated: IsSimulated,
): boolean {
  return !live || connector === 'live' || isSimulated(bank)
}

/** The fault of a business's own reference in the form of Inflow's: accounts are found by either, so it could name two. */
export const REFERENCE_IS_ASSIGNED: FieldFault = {
  field: 'reference',
  message:
    'must not have the form of the references that Inflow assigns: R- and 16 or more characters',
}

/** The name on the account: `<business alias>/<First> <Last>`. */
export function accountNameOf(alias: string, firstName: string, lastName: string): string {
  return `${alias}/${firstName} ${lastName}`
}

/** @returns undefined if the request has none */
export function toVerification({ identityId, otp }: Verification): Verification | undefined {
  return identityId === '' ? undefined : { identityId, otp }
}

/** The encryption context that binds an identity number to its account. */
export function identityContext(accountId: string): string {
  return `id_number ${accountId}`
}

/** The text whose keyed hash identifies an identity number in searches. */
export function identityText(idType: IdKind | undefined, idNumber: string): string {
  return `id_number ${idType ?? ''} ${idNumber}`
}

/** The details as one text, which is equal only for equal details. */
export function detailsText(details: AccountDetails): string {
  const terms = termsText(details.terms, details.metadata)
  const split = splitText(details.split)
  return JSON.stringify([
    details.bank,
    details.firstName,
    details.lastName,
    details.email,
    details.phone,
    details.idType ?? '',
    details.idNumber ?? '',
    ...(terms === undefined && split === undefined ? [] : [terms ?? null]),
    ...(split === undefined ? [] : [split]),
  ])
}

/**
 * The states of the opening of a PENDING account: what happens to it next.
 *
 *     CREATING ──opened──▶ (ACTIVE)    RETRYABLE  ──the business repeats its request──▶ CREATING
 *        ├──rejected──▶ (deleted)      RETRYING   ──the service or the business retries─▶ CREATING
 *        ├──unavailable──▶ RETRYABLE   REQUERYING ──the service or the business asks ───▶ CREATING
 *        ├──unclear──▶ RETRYING, REQUERYING or MANUAL_REVIEW, as the bank allows
 *        └──the process died──▶ the same, as the bank's connector says
 */
export const OPENING_STATES = [
  'CREATING',
  'RETRYABLE',
  'RETRYING',
  'REQUERYING',
  'MANUAL_REVIEW',
] as const

export type OpeningState = (typeof OPENING_STATES)[number]

/** The state before an attempt at the bank: `RETRYABLE` if nothing can be open yet. */
export type PriorState = 'RETRYABLE' | 'RETRYING' | 'REQUERYING'

/** An opening after an attempt that did not open the account. */
export interface PendingOpening {
  readonly state: Exclude<OpeningState, 'CREATING'>
  readonly cause: string
  /** When the service next tries to open the account; undefined: it does not. */
  readonly nextTryAtMs: number | undefined
  readonly refusal?: Refusal
}

/** After this many unclear attempts the account goes to manual review. */
export const ATTEMPTS_MAX = 48

const BACKOFF = { minMs: 5_000, maxMs: 1_800_000 }

const STATES: Readonly<Record<NextStep, 'RETRYING' | 'REQUERYING' | 'MANUAL_REVIEW'>> = {
  retry: 'RETRYING',
  requery: 'REQUERYING',
  'manual review': 'MANUAL_REVIEW',
}

export const openingStateOf = (next: NextStep) => STATES[next]

/** @param attempt the number of the attempt with the result, from 1 */
export function pendingOpening(
  result: Extract<AccountResult, { kind: 'unavailable' | 'unknown' }>,
  attempt: number,
  nowMs: number,
): PendingOpening {
  const { cause } = result
  const refusal = result.refusal && { refusal: result.refusal }
  if (result.kind === 'unavailable') {
    return { state: 'RETRYABLE', cause, nextTryAtMs: undefined, ...refusal }
  }
  const state = openingStateOf(result.next)
  if (state === 'MANUAL_REVIEW') return { state, cause, nextTryAtMs: undefined }
  if (attempt >= ATTEMPTS_MAX) {
    const text = `no clear result after ${attempt} attempts; the last: ${cause}`
    return { state: 'MANUAL_REVIEW', cause: text, nextTryAtMs: undefined }
  }
  return { state, cause, nextTryAtMs: nowMs + backoffMs(attempt, BACKOFF), ...refusal }
}
