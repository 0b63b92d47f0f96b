import type { BankCode, IdKind } from '../banks/bank.ts'
import type { OpeningState } from './opening.ts'

/**
 * The states of an account.
 *
 *     PENDING ──bank confirmed──▶ ACTIVE ──closed──▶ CLOSED
 *        └──bank refused the customer──▶ (gone: nothing was opened)
 *
 * How a pending one gets on: see `OPENING_STATES`.
 */
export const ACCOUNT_STATUSES = ['PENDING', 'ACTIVE', 'CLOSED'] as const

export type AccountStatus = (typeof ACCOUNT_STATUSES)[number]

/** What a business asks for. */
export interface AccountDetails {
  readonly bank: BankCode
  readonly firstName: string
  readonly lastName: string
  readonly email: string
  readonly phone: string
  readonly idType: IdKind | undefined
  readonly idNumber: string | undefined
}

/** An account that the bank has opened. Nothing of it but the status ever changes. */
export interface OpenAccount {
  readonly id: string
  readonly businessId: string
  /** Of live mode; false: of test mode. */
  readonly live: boolean
  readonly reference: string
  readonly merchantReference: string
  readonly bank: BankCode
  readonly accountNumber: string
  readonly accountName: string
  readonly status: AccountStatus
  readonly firstName: string
  readonly lastName: string
  readonly email: string
  readonly phone: string
  readonly createdAtMs: number
}

/** What is known of an account before its bank has opened it. */
export type AccountOnOrder = Omit<OpenAccount, 'accountNumber' | 'accountName' | 'status'>

/** A stored account in whatever state. */
export interface StoredAccount extends Omit<OpenAccount, 'accountNumber' | 'accountName'> {
  readonly accountNumber: string | undefined
  readonly accountName: string | undefined
  /** The bank's own identifier of the account; empty where it has none. */
  readonly bankAccountId: string
  readonly detailsHash: Uint8Array
  /** How far the opening has come, while the account is pending. */
  readonly openingState: OpeningState
  /** Why the latest attempt did not open it. */
  readonly lastCause: string
  /** When the service goes on with the opening by itself. */
  readonly nextTryAtMs: number | undefined
  /** How often the bank was asked to open it. */
  readonly attempts: number
}

export function isOpened(account: StoredAccount): account is StoredAccount & OpenAccount {
  return account.status !== 'PENDING'
}

/** The name on the account: `<business alias>/<First> <Last>`. */
export function accountNameOf(alias: string, firstName: string, lastName: string): string {
  return `${alias}/${firstName} ${lastName}`
}

/** What a sealed identity number belongs to. */
export function identityContext(accountId: string): string {
  return `id_number ${accountId}`
}

/** The text that is hashed to find an identity number by. */
export function identityText(idType: IdKind | undefined, idNumber: string): string {
  return `id_number ${idType ?? ''} ${idNumber}`
}

/** The details as one text: equal for equal requests, and for no others. */
export function detailsText(details: AccountDetails): string {
  return JSON.stringify([
    details.bank,
    details.firstName,
    details.lastName,
    details.email,
    details.phone,
    details.idType ?? '',
    details.idNumber ?? '',
  ])
}
