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
export type SettlementStatus = 'RUNNING' | 'COMPLETED'

/** How a settlement is paid out to a bank account. */
export interface SettlementPayout {
  /** The last payout that was requested for it; empty: none was. */
  readonly payoutId: string
  /** Why it is not paid out; empty: it is, or its payout is not final. */
  readonly detail: string
  /** When it is tried again; undefined: it is not, or nothing is wrong. */
  readonly nextAtMs: number | undefined
}

/** Finds how settlements are paid out, by their ids. The domain of payouts, which is above this one, has it. */
export type FindSettlementPayouts = (
  on: Queryable,
  settlementIds: readonly string[],
) => Promise<ReadonlyMap<string, SettlementPayout>>

/** The current state of a settlement. */
export interface Settlement extends BalanceKey, Fee {
  readonly id: string
  /** The stored request that started it; empty: the schedule did. */
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

/** What is added to the available balance. */
export function netOf({
  grossMinor,
  feesMinor,
  splitsMinor,
}: Pick<Settlement, 'grossMinor' | 'feesMinor' | 'splitsMinor'>): bigint {
  return grossMinor - feesMinor - splitsMinor
}

/**
 * A settlement whose payments reach this sum, in kobo, is full: it ends with that batch, before the end of its range,
 * and the next settlement continues from there. So its totals and its event fit into an int64, whatever payments there
 * are.
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
