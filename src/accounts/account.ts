import type { BankCode, IdKind } from '../banks/bank.ts'

/**
 * The states of an account.
 *
 *     PENDING ──bank confirmed──▶ ACTIVE ──closed──▶ CLOSED
 *        └──bank refused the customer──▶ (gone: nothing was opened)
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

/** A stored account in whatever state. */
export interface StoredAccount extends Omit<OpenAccount, 'accountNumber' | 'accountName'> {
  readonly accountNumber: string | undefined
  readonly accountName: string | undefined
  readonly detailsHash: Uint8Array
  /** How often the bank was asked to open it. */
  readonly attempts: number
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
