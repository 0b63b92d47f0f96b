import type { Schedule } from './schedule.ts'

/**
 * The fee of a payment: the flat fee plus the proportional fee, rounded to the nearest kobo, half
 * a kobo up. It exceeds neither the cap nor the payment. SQL function: `settlement_fee`.
 */
export interface Fee {
  readonly feeFlatMinor: bigint
  /** Hundredths of a percent. */
  readonly feeBasisPoints: number
  /** 0: no maximum. */
  readonly feeCapMinor: bigint
}

export interface Terms extends Schedule, Fee {}

/** For a business without its own terms: due when the next working day starts, without a fee. */
export const DEFAULT_TERMS: Terms = {
  schedule: 'WORKING_DAYS',
  workingDays: 1,
  cutOffMinutes: 0,
  feeFlatMinor: 0n,
  feeBasisPoints: 0,
  feeCapMinor: 0n,
}
