import type { IncomingPayment } from '../transaction.ts'

/**
 * An operator's decision about an unmatched payment. It is final.
 *
 *     (open) ──▶ ASSIGNED   recorded for the account that the operator named
 *        └─────▶ RETURNED   returned to the payer; never recorded afterwards
 */
export type Resolution = 'ASSIGNED' | 'RETURNED'

/** A payment for an account number that is not open. */
export interface UnmatchedPayment extends Omit<IncomingPayment, 'recordedBy'> {
  readonly id: string
  readonly createdAtMs: number
}

/** What all reports of a payment have in common. */
export type PaymentKey = Pick<
  UnmatchedPayment,
  'bank' | 'sessionId' | 'accountNumber' | 'amountMinor'
>

/** An unmatched payment as it is stored. */
export interface StoredUnmatched extends UnmatchedPayment {
  /** Undefined while no operator has decided. */
  readonly resolution: Resolution | undefined
  readonly resolvedAtMs: number | undefined
  readonly note: string
  /** The transaction that records it, if it was assigned. */
  readonly transactionId: string | undefined
}
