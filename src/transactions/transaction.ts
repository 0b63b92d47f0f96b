import type { BankCode } from '../banks/bank.ts'

/** The states of a transaction; the contract of every door. */
export const TRANSACTION_STATUSES = ['PENDING', 'SUCCESS', 'FAILED', 'REVERSED'] as const

export type TransactionStatus = (typeof TRANSACTION_STATUSES)[number]

/** How a payment reaches a virtual account. */
export const PAYMENT_METHOD = 'bank_transfer'

/** Who paid, as far as the bank says; unknown parts are empty. */
export interface Payer {
  readonly name: string
  readonly accountNumber: string
  readonly bankCode: string
  readonly bankName: string
}

const PAID_FROM_MS = Date.UTC(2000, 0)
const PAID_BEFORE_MS = Date.UTC(2100, 0)

/** Whether a payment can be of this time: a bank that says another means none. */
export function canBePaidAt(atMs: number): boolean {
  return atMs >= PAID_FROM_MS && atMs < PAID_BEFORE_MS
}

/** A payment as a bank tells of it. */
export interface IncomingPayment {
  readonly bank: BankCode
  readonly accountNumber: string
  readonly sessionId: string
  readonly amountMinor: bigint
  readonly status: Exclude<TransactionStatus, 'REVERSED'>
  readonly paidAtMs: number
  readonly payer: Payer
  readonly narration: string
  /**
   * True: for live accounts only, as what a real bank tells of is; false: for test accounts only;
   * undefined: for the live account of the number, else the test one.
   */
  readonly live: boolean | undefined
}

/** What of the account a transaction shows. */
export interface AccountFacts {
  readonly businessId: string
  /** Of live mode; false: of test mode. So is the transaction. */
  readonly live: boolean
  readonly reference: string
  readonly merchantReference: string
  readonly accountNumber: string
  readonly accountName: string
  readonly firstName: string
  readonly lastName: string
  readonly email: string
  readonly createdAtMs: number
}

/** The end of a payment that was taken back. */
export interface Reversal {
  readonly reason: string
  readonly reversedAtMs: number
}

/** A recorded transaction with its account. */
export interface StoredTransaction {
  readonly id: string
  readonly account: AccountFacts
  readonly bank: BankCode
  readonly sessionId: string
  readonly amountMinor: bigint
  readonly status: TransactionStatus
  readonly settled: boolean
  readonly paidAtMs: number
  /** When it was recorded; of one that was announced first, when it became final. */
  readonly createdAtMs: number
  readonly payer: Payer
  readonly narration: string
  /** Of one that is reversed, where it was asked for. */
  readonly reversal?: Reversal
}

/** What of a transaction its business is shown. */
export interface ShownTransaction
  extends Pick<
    StoredTransaction,
    'sessionId' | 'bank' | 'amountMinor' | 'status' | 'settled' | 'paidAtMs'
  > {
  readonly account: Pick<
    AccountFacts,
    'reference' | 'accountNumber' | 'accountName' | 'firstName' | 'lastName' | 'email'
  >
}

/** What recording a payment came to. */
export type RecordOutcome = 'RECORDED' | 'DUPLICATE' | 'UNMATCHED' | 'CONFLICT'

/** What a payment is to the transaction that is recorded for its session. */
export type Repeat = 'duplicate' | 'final' | 'conflict'

/**
 * A repeat may make a transaction final, and moves it nowhere else: see ledger.ts for the legal
 * moves. A late PENDING says nothing new. A final status that contradicts the recorded one is no move: it
 * is a conflict, and a person decides.
 */
export function classifyRepeat(
  recorded: {
    readonly status: TransactionStatus
    readonly amountMinor: bigint
    readonly accountNumber: string
  },
  payment: Pick<IncomingPayment, 'amountMinor' | 'accountNumber' | 'status'>,
): Repeat {
  if (recorded.amountMinor !== payment.amountMinor) return 'conflict'
  if (recorded.accountNumber !== payment.accountNumber) return 'conflict'
  if (recorded.status === payment.status || payment.status === 'PENDING') return 'duplicate'
  if (recorded.status === 'PENDING') return 'final'
  if (recorded.status === 'REVERSED' && payment.status === 'SUCCESS') return 'duplicate'
  return 'conflict'
}
