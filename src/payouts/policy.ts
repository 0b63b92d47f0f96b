import { HOUR_MS } from '../core/durations.ts'
import { formatAmount, INT64_MAX } from '../core/money.ts'
import type { Destination } from './payout.ts'

/** The fee of amounts up to a limit. Amounts are in kobo. */
export interface FeeBand<Minor = bigint> {
  /** 0: any amount. */
  readonly upToMinor: Minor
  readonly flatMinor: Minor
  readonly basisPoints: number
  /** 0: no maximum. */
  readonly capMinor: Minor
}

/** Where the settlements of a business are paid out. */
export type SettleTo = Omit<Destination, 'bankName'>

/** The rules of payouts. A limit of 0 means no limit. */
export interface PayoutPolicy {
  readonly payoutMaxMinor: bigint
  readonly dailyMaxMinor: bigint
  readonly monthlyMaxMinor: bigint
  /** Larger payouts need an approval; null: no amount needs one. */
  readonly approvalAboveMinor: bigint | null
  readonly coolDownHours: number
  readonly newBeneficiaryMaxMinor: bigint
  readonly approvalHours: number
  readonly fees: readonly FeeBand[]
  readonly chargeDuty: boolean
  readonly settleTo: SettleTo | null
  readonly floorMinor: bigint
}

/** The rules of a business or an installation that has stored none. */
export const DEFAULT_POLICY: PayoutPolicy = {
  payoutMaxMinor: 0n,
  dailyMaxMinor: 0n,
  monthlyMaxMinor: 0n,
  approvalAboveMinor: null,
  coolDownHours: 24,
  newBeneficiaryMaxMinor: 10_000_000n,
  approvalHours: 72,
  fees: [],
  chargeDuty: false,
  settleTo: null,
  floorMinor: 0n,
}

/** The fee of an amount, in kobo; half a kobo rounds up. */
export function feeOf(fees: readonly FeeBand[], amountMinor: bigint): bigint {
  const band = fees.find(({ upToMinor }) => upToMinor === 0n || amountMinor <= upToMinor)
  if (band === undefined) return 0n
  const { flatMinor, basisPoints, capMinor } = band
  const fee = flatMinor + (amountMinor * BigInt(basisPoints) + 5_000n) / 10_000n
  return capMinor > 0n && fee > capMinor ? capMinor : fee
}

/** A duty on transfers, as a law states it. */
interface Duty {
  /** The first day, in Lagos. */
  readonly since: string
  readonly name: string
  readonly payer: 'sender' | 'receiver'
  /** Smaller amounts are free, in kobo. */
  readonly fromMinor: bigint
  readonly dutyMinor: bigint
}

/**
 * Duties on electronic transfers in Nigeria, in the order of their days. Until 2025 the receiver's bank deducted the
 * Electronic Money Transfer Levy (Finance Act 2020; Electronic Money Transfer Levy Regulations 2022): 50 naira from
 * 10,000 naira. The Nigeria Tax Act 2025 made it a stamp duty from 2026, which the sender pays.
 */
export const DUTIES: readonly Duty[] = [
  {
    since: '2021-01-01',
    name: 'Electronic Money Transfer Levy',
    payer: 'receiver',
    fromMinor: 1_000_000n,
    dutyMinor: 5_000n,
  },
  {
    since: '2026-01-01',
    name: 'Stamp duty',
    payer: 'sender',
    fromMinor: 1_000_000n,
    dutyMinor: 5_000n,
  },
]

/** The duty that the sender owes for a transfer on a day in Lagos (YYYY-MM-DD), in kobo. */
export function dutyOf(amountMinor: bigint, day: string): bigint {
  const duty = DUTIES.findLast(({ since }) => since <= day)
  if (duty === undefined || duty.payer !== 'sender' || amountMinor < duty.fromMinor) return 0n
  return duty.dutyMinor
}

/** The facts about a requested payout to which the rules are applied. */
interface Requested {
  readonly amountMinor: bigint
  /** The sums that were already requested on the same day and in the same month, in kobo. */
  readonly dayMinor: bigint
  readonly monthMinor: bigint
  /** When the business first paid this beneficiary; undefined: never. */
  readonly firstUsedAtMs: number | undefined
  /** The sum that was requested for the beneficiary since then, in kobo. Only needed while the beneficiary is new. */
  readonly earlierMinor?: bigint
  readonly nowMs: number
}

/** Describes the limit that a payout would exceed, of the rules or of the database; undefined: none. */
export function limitFault(
  { payoutMaxMinor, dailyMaxMinor, monthlyMaxMinor }: PayoutPolicy,
  { amountMinor, dayMinor, monthMinor }: Pick<Requested, 'amountMinor' | 'dayMinor' | 'monthMinor'>,
): string | undefined {
  if (payoutMaxMinor > 0n && amountMinor > payoutMaxMinor) {
    return `must be at most ${formatAmount(payoutMaxMinor)} naira, the limit of one payout`
  }
  if (dailyMaxMinor > 0n && dayMinor + amountMinor > dailyMaxMinor) {
    return `exceeds what is left of today's limit, ${formatAmount(leftOf(dailyMaxMinor, dayMinor))} naira`
  }
  if (monthlyMaxMinor > 0n && monthMinor + amountMinor > monthlyMaxMinor) {
    return `exceeds what is left of this month's limit, ${formatAmount(leftOf(monthlyMaxMinor, monthMinor))} naira`
  }
  // Money in test mode is free, so a caller can request more than the column for the sum of a day holds.
  if (dayMinor + amountMinor > INT64_MAX) {
    return 'exceeds what the payouts of a day can add up to'
  }
  return undefined
}

function leftOf(max: bigint, used: bigint): bigint {
  return used > max ? 0n : max - used
}

/** Why a payout needs an approval by these rules; undefined: it needs none. */
export function approvalReason(
  { approvalAboveMinor, coolDownHours, newBeneficiaryMaxMinor }: PayoutPolicy,
  {
    amountMinor,
    firstUsedAtMs,
    earlierMinor = 0n,
    nowMs,
  }: Omit<Requested, 'dayMinor' | 'monthMinor'>,
): string | undefined {
  if (approvalAboveMinor !== null && amountMinor > approvalAboveMinor) {
    return `more than ${formatAmount(approvalAboveMinor)} naira`
  }
  const isNew = firstUsedAtMs === undefined || nowMs < firstUsedAtMs + coolDownHours * HOUR_MS
  if (coolDownHours > 0 && isNew && earlierMinor + amountMinor > newBeneficiaryMaxMinor) {
    return `more than ${formatAmount(newBeneficiaryMaxMinor)} naira to a beneficiary that is new for ${coolDownHours} hours`
  }
  return undefined
}
