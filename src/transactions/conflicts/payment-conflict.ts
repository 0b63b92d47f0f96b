import type { BankCode } from '../../banks/bank.ts'
import type { TransactionStatus } from '../transaction.ts'

/** A report that contradicts a recorded payment, as it is stored. */
export interface StoredConflict {
  readonly id: string
  readonly bank: BankCode
  /** The id of the recorded transaction. */
  readonly transaction: string
  /** The session id of the report, and so of the transaction; empty if a statement does not give it. */
  readonly sessionId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly status: TransactionStatus
  readonly createdAt: Date
}

/** A stored report beside what was recorded for its session. */
export interface ListedConflict extends StoredConflict {
  readonly resolvedAtMs: number | undefined
  /** The operator's note. */
  readonly note: string
  readonly recorded: {
    readonly businessId: string
    readonly recordedAccountNumber: string
    readonly recordedAmountMinor: bigint
  }
}
