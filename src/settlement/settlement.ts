import type { Queryable } from '../postgres/in-transaction.ts'
import type { Fee } from './terms.ts'

/** Identifies a balance: a business has one in each mode. */
export interface BalanceKey {
  readonly businessId: string
  /** true: live mode; false: test mode. */
  readonly live: boolean
}

/** The balance of a business in one mode, in kobo. */
export interface Balance {
  readonly pendingMinor: bigint
  readonly availableMinor: bigint
  readonly feesMinor: bigint
}

/** A balance as PostgreSQL returns it. */
export interface BalanceRow {
  readonly pending_minor: string
  readonly available_minor: string
  readonly fees_minor: string
}

export function toBalance({ pending_minor, available_minor, fees_minor }: BalanceRow): Balance {
  return {
    pendingMinor: BigInt(pending_minor),
    availableMinor: BigInt(available_minor),
    feesMinor: BigInt(fees_minor),
  }
}

/** The states of a settlement: RUNNING ──▶ COMPLETED. */
type SettlementStatus = 'RUNNING' | 'COMPLETED'

/** How a settlement is paid out to a bank account. */
export interface SettlementPayout {
  /** The last payout that was requested for the settlement; empty: none was requested. */
  readonly payoutId: string
  /** Why the settlement is not paid out; empty: it is paid out, or its payout is not final. */
  readonly detail: string
  /** When the payout is tried again; undefined: it is not tried again, or there is no obstacle. */
  readonly nextAtMs: number | undefined
}

/** Finds how settlements are paid out, by their ids. The payouts domain, which depends on this one, implements it. */
export type FindSettlementPayouts = (
  on: Queryable,
  settlementIds: readonly string[],
) => Promise<ReadonlyMap<string, SettlementPayout>>

/** The current state of a settlement. */
export interface Settlement extends BalanceKey, Fee {
  readonly id: string
  /** The stored request that started the settlement; empty: the schedule started it. */
  readonly requestId: string
  /** The id that the caller gave that request; empty: the schedule started it. */
  readonly idempotencyKey: string
  readonly status: SettlementStatus
  readonly forced: boolean
  readonly cutOffAtMs: number
  /** It covers the business's events after this sequence number … */
  readonly fromSequence: bigint
  /** … up to and including this one … */
  readonly toSequence: bigint
  /** … and has processed them up to and including this one. */
  readonly scannedSequence: bigint
  readonly transactionCount: bigint
  readonly grossMinor: bigint
  readonly feesMinor: bigint
  /** The shares of other businesses. */
  readonly splitsMinor: bigint
  readonly startedAtMs: number
  readonly completedAtMs: number | undefined
}

/** The amount that a settlement adds to the available balance. */
export function netOf({
  grossMinor,
  feesMinor,
  splitsMinor,
}: Pick<Settlement, 'grossMinor' | 'feesMinor' | 'splitsMinor'>): bigint {
  return grossMinor - feesMinor - splitsMinor
}

/**
 * A settlement whose payments reach this sum, in kobo, is full: it ends with that batch, before the end of its range,
 * and the next settlement continues from there. So its totals always fit into an int64.
 */
export const FULL_MINOR = 2n ** 62n

/** Below and above every sequence number of any business. */
export const BEFORE_ALL = -(2n ** 62n)
export const AFTER_ALL = 2n ** 62n

/** The progress of a settlement in whole percent, 0 to 100. */
export function percentDone(
  settlement: Pick<Settlement, 'status' | 'fromSequence' | 'toSequence' | 'scannedSequence'>,
): number {
  if (settlement.status === 'COMPLETED') return 100
  // The first settlement of a business starts below every sequence number.
  const from = settlement.fromSequence === BEFORE_ALL ? 0n : settlement.fromSequence
  const whole = settlement.toSequence - from
  const done = settlement.scannedSequence - from
  if (whole <= 0n || done <= 0n) return 0
  return Math.min(99, Number((done * 100n) / whole))
}
