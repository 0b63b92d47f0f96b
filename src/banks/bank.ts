import type { FieldFault } from '../errors.ts'

/** The banks, by the codes that businesses use. */
export const BANK_CODES = ['9PSB', 'SAFEHAVEN', 'PROVIDUS', 'PALMPAY'] as const

export type BankCode = (typeof BANK_CODES)[number]

/** What is known of a bank whatever connector serves it. */
export interface BankFacts {
  /** Display name. */
  readonly name: string
  /** The code in interbank session ids, six digits. */
  readonly interbankCode: string
  /** The code in NUBAN check digits: three digits for banks, six for other institutions. */
  readonly nubanCode: string
}

/** Codes as the interbank switch and the central bank list them (their lists disagree). */
export const BANK_FACTS: Readonly<Record<BankCode, BankFacts>> = {
  '9PSB': { name: '9 Payment Service Bank', interbankCode: '120001', nubanCode: '120001' },
  SAFEHAVEN: { name: 'Safe Haven Microfinance Bank', interbankCode: '090286', nubanCode: '951113' },
  PROVIDUS: { name: 'Providus Bank', interbankCode: '000023', nubanCode: '101' },
  PALMPAY: { name: 'PalmPay', interbankCode: '100033', nubanCode: '999991' },
}

/** Kinds of identity numbers. */
export const ID_KINDS = ['nin', 'bvn'] as const

export type IdKind = (typeof ID_KINDS)[number]

/** The account to open. */
export interface AccountOrder {
  readonly bank: BankCode
  /** Our reference, `R-…`: a bank that takes one sees the same at every attempt. */
  readonly reference: string
  readonly accountName: string
  readonly firstName: string
  readonly lastName: string
  readonly email: string
  readonly phone: string
  readonly idType: IdKind | undefined
  readonly idNumber: string | undefined
  /** 1 at the first attempt; more when an earlier one had no clear end. */
  readonly attempt: number
}

/** What a bank made of an order. */
export type AccountResult =
  | { readonly kind: 'opened'; readonly accountNumber: string; readonly accountName: string }
  /** The customer's details are at fault; nothing was opened. */
  | { readonly kind: 'rejected'; readonly fields: readonly FieldFault[] }
  /** Nothing was opened, for a passing cause, or it is not known whether anything was. */
  | { readonly kind: 'unavailable'; readonly cause: string }

/** Serves one bank. */
export interface BankConnector {
  /** Opens an account. It answers for every fault of the bank; it throws for ours alone. */
  openAccount(order: AccountOrder, signal: AbortSignal): Promise<AccountResult>
}

/** The connector of each bank. */
export type Banks = Readonly<Record<BankCode, BankConnector>>
