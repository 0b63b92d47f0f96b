import type { FieldFault } from '../core/errors.ts'

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
  /** How often the bank was asked with this time, whatever came of it. */
  readonly attempt: number
  /** Whether an earlier attempt may have opened the account. */
  readonly repeated: boolean
}

/** What may be done next about an opening without a clear end. */
export type NextStep =
  /** The bank recognises our reference: asking again cannot open a second account. */
  | 'repeat'
  /** The bank can be asked what became of it: `findOpened`. */
  | 'query'
  /** Neither: a person has to look. */
  | 'person'

/** What a bank made of an order. */
export type AccountResult =
  | {
      readonly kind: 'opened'
      readonly accountNumber: string
      readonly accountName: string
      /** The bank's own identifier of the account, where its calls want one; else empty. */
      readonly bankAccountId: string
    }
  /** The customer's details are at fault; nothing was opened. */
  | { readonly kind: 'rejected'; readonly fields: readonly FieldFault[] }
  /** Nothing was opened, for a passing cause; asking again is safe. */
  | { readonly kind: 'unavailable'; readonly cause: string }
  /** It is not known whether an account was opened. */
  | { readonly kind: 'unknown'; readonly cause: string; readonly next: NextStep }

/** An open account, as its bank knows it. */
export interface AccountAtBank {
  /** Our reference, `R-…`. */
  readonly reference: string
  readonly accountNumber: string
  readonly bankAccountId: string
}

/** A payment as a bank tells of it, before it is known whose account it is for. */
export interface BankPayment {
  /** The bank's unique key of the payment: what it is deduplicated on. */
  readonly bankKey: string
  /** As banks name transfers among each other; the bank's key stands in where it is missing. */
  readonly sessionId: string
  readonly accountNumber: string
  /** Kobo. */
  readonly amountMinor: bigint
  /** Undefined when the bank says no readable time. */
  readonly paidAtMs: number | undefined
  readonly payer: {
    readonly name: string
    readonly accountNumber: string
    readonly bankCode: string
    readonly bankName: string
  }
  readonly narration: string
}

/** A bank's request to us, as it came. */
export interface BankNotification {
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly rawBody: Buffer
  /** The path's segment after `notifications/`; empty without one. */
  readonly pathSecret: string
}

/** What a notification says. */
export type Reading =
  | {
      readonly kind: 'payment'
      readonly payment: BankPayment
      /** Whether a signature binds every field of it, so that a requery may be left out. */
      readonly bound: boolean
    }
  /** The bank took a payment back. */
  | { readonly kind: 'reversal'; readonly payment: BankPayment; readonly bound: boolean }
  /** Authentic, and no money of a virtual account: acknowledged, and nothing else. */
  | { readonly kind: 'noise'; readonly cause: string }
  /** Not authentic. It changes nothing and is not kept. */
  | { readonly kind: 'forged'; readonly cause: string }
  /** Authentic, and not to be understood: kept for a person. */
  | { readonly kind: 'unreadable'; readonly cause: string }

/** What became of a notification; each bank has its own words for it. */
export type NotificationOutcome =
  | 'RECORDED'
  | 'DUPLICATE'
  | 'UNMATCHED'
  /** Kept for a person, as it contradicts what is recorded, or cannot be understood. */
  | 'MANUAL_REVIEW'
  | 'IGNORED'
  | 'UNAUTHENTICATED'
  /** The bank itself does not confirm the payment. */
  | 'UNCONFIRMED'
  /** A fault of ours, or the bank could not confirm it now: it has to come again. */
  | 'RETRY'

/** The answer to a notification, in the bank's own words. */
export interface Acknowledgement {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

/** What a bank says of a payment when it is asked. */
export type Requery =
  | { readonly kind: 'confirmed'; readonly payment: BankPayment }
  | { readonly kind: 'reversed'; readonly payment: BankPayment }
  | { readonly kind: 'denied'; readonly cause: string }
  /** It did not answer, or not clearly. */
  | { readonly kind: 'unknown'; readonly cause: string }

/** A page of the payments of a period. */
export interface PaymentPage {
  readonly payments: readonly BankPayment[]
  /** Undefined at the end. */
  readonly next: string | undefined
}

export interface PaymentListing {
  readonly fromMs: number
  /** Exclusive. */
  readonly toMs: number
  /** Of the page; undefined for the first. */
  readonly page: string | undefined
  /** Asked for one account, where `listing` is `by account`. */
  readonly account: AccountAtBank | undefined
}

/**
 * Serves one bank. Its functions answer for every fault of the bank, time-outs included; they throw
 * for defects of ours alone.
 */
export interface BankConnector {
  openAccount(order: AccountOrder, signal: AbortSignal): Promise<AccountResult>
  /** What may be done about an opening whose process died, or could not write down its result. */
  readonly afterCrash: NextStep
  /**
   * What became of an opening without a clear end, where the bank can be asked. It is `unavailable`
   * only when the bank says that it opened nothing; a bank that does not say is `unknown`.
   */
  readonly findOpened?: (order: AccountOrder, signal: AbortSignal) => Promise<AccountResult>
  /** Absent where the bank cannot: then the account is blocked here. */
  readonly closeAccount?: (
    account: AccountAtBank,
    signal: AbortSignal,
  ) => Promise<{ readonly kind: 'closed' } | { readonly kind: 'unavailable'; cause: string }>
}

/** What a connector to a real bank can do beside that. */
export interface LiveConnector extends BankConnector {
  /** Authenticates and reads. Pure: it asks nobody. */
  read(notification: BankNotification): Reading
  acknowledge(outcome: NotificationOutcome, notification: BankNotification): Acknowledgement
  requery(payment: BankPayment, signal: AbortSignal): Promise<Requery>
  /** How payments of a period can be listed; absent where they cannot. */
  readonly listing?: 'by bank' | 'by account'
  readonly listPayments?: (listing: PaymentListing, signal: AbortSignal) => Promise<PaymentPage>
}

/** The connector of each bank, for live accounts. */
export type Banks = Readonly<Record<BankCode, BankConnector>>

/** The connector that an account is, or is to be, served by: the sandbox those of test mode. */
export type BankOf = (account: { readonly bank: BankCode; readonly live: boolean }) => BankConnector
