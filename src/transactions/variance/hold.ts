import type { Variance } from './variance.ts'

/**
 * What became of a payment with a variance. It is in no balance while it is held.
 *
 *     HELD ──the business accepts it──▶ ACCEPTED
 *       ├──the business asks to return it──▶ RETURN_REQUESTED ──the return is complete──▶ RETURNED
 *       └──reversed──▶ RETURNED
 */
export type HoldState = 'HELD' | 'ACCEPTED' | 'RETURN_REQUESTED' | 'RETURNED'

/** How a payment into a one-time account differs, and what became of it. */
export interface PaymentVariance {
  readonly variance: Variance
  /** Undefined if the variance is NONE. */
  readonly hold: HoldState | undefined
  /** When its hold ended; undefined while it is held, and if it never was. */
  readonly decidedAtMs: number | undefined
  /** Why the business asked to return it; empty if it did not say, or did not ask. */
  readonly returnReason: string
}

/** The state of a payment when it is recorded. */
export function newVariance(variance: Variance): PaymentVariance {
  const hold = variance === 'NONE' ? undefined : 'HELD'
  return { variance, hold, decidedAtMs: undefined, returnReason: '' }
}

/** The state of a payment once it is reversed. */
export function returnedOf(
  variance: PaymentVariance | undefined,
  nowMs: number,
): PaymentVariance | undefined {
  const isHeld = variance?.hold === 'HELD' || variance?.hold === 'RETURN_REQUESTED'
  return isHeld ? { ...variance, hold: 'RETURNED', decidedAtMs: nowMs } : variance
}
