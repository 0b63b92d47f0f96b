import type { IncomingPayment } from './transaction.ts'

/**
 * What a person made of an unmatched payment. It is decided once.
 *
 *     (open) ──▶ ASSIGNED   recorded for an account that was named
 *        └─────▶ RETURNED   gone back to the payer; never recorded any more
 */
export type Resolution = 'ASSIGNED' | 'RETURNED'

/** A payment that no open account was found for. */
export interface UnmatchedPayment extends IncomingPayment {
  readonly id: string
  readonly createdAtMs: number
}

/** As it is kept. */
export interface StoredUnmatched extends UnmatchedPayment {
  /** Undefined: nothing yet. */
  readonly resolution: Resolution | undefined
  readonly resolvedAtMs: number | undefined
  readonly note: string
  /** What it was recorded as, when it was assigned. */
  readonly transactionId: string | undefined
}
