import type { Fee } from './terms/terms.ts'

/** Whose money: of one mode of one business. */
export interface Book {
  readonly businessId: string
  /** Of live mode; false: of test mode. */
  readonly live: boolean
}

/** What a business has with the service in one mode, in kobo. */
export interface Balance {
  readonly pendingMinor: bigint
  readonly availableMinor: bigint
  readonly feesMinor: bigint
}

/** The states of a settlement: RUNNING ──▶ COMPLETED. */
export type SettlementStatus = 'RUNNING' | 'COMPLETED'

/** One settlement as it stands. */
export interface Settlement extends Book, Fee {
  readonly id: string
  /** Empty: made by the schedule. */
  readonly requestId: string
  readonly status: SettlementStatus
  readonly forced: boolean
  readonly cutOffAtMs: number
  /** It is of the business's events after this one … */
  readonly fromSequence: bigint
  /** … up to this one … */
  readonly toSequence: bigint
  /** … and is worked off up to this one. */
  readonly scannedSequence: bigint
  readonly transactionCount: bigint
  readonly grossMinor: bigint
  readonly feesMinor: bigint
  readonly startedAtMs: number
  readonly completedAtMs: number | undefined
}

/** Before the first event of any business, and after the last one. */
export const BEFORE_ALL = -(2n ** 62n)
export const AFTER_ALL = 2n ** 62n

/** How much of a settlement is done, in whole percent. */
export function percentDone(settlement: Settlement): number {
  if (settlement.status === 'COMPLETED') return 100
  // The first settlement of a business begins before every number there is.
  const from = settlement.fromSequence === BEFORE_ALL ? 0n : settlement.fromSequence
  const whole = settlement.toSequence - from
  const done = settlement.scannedSequence - from
  if (whole <= 0n || done <= 0n) return 0
  return Math.min(99, Number((done * 100n) / whole))
}
