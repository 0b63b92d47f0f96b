import type { InferEntity } from '@mikro-orm/core'
import type { EntityManager } from '@mikro-orm/postgresql'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { findBusiness } from '../businesses/get-business.ts'
import { HOUR_MS } from '../core/durations.ts'
import { type FieldFault, invalidFields } from '../core/errors.ts'
import { AMOUNT_MINOR_MAX, formatAmount } from '../core/money.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { PayoutPolicyEntity } from './payout.entity.ts'

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
export interface SettleTo {
  readonly bankCode: string
  readonly accountNumber: string
  readonly accountName: string
}

/** The rules of payouts. A limit of 0 does not limit. */
export interface PayoutPolicy {
  readonly payoutMaxMinor: bigint
  readonly dailyMaxMinor: bigint
  readonly monthlyMaxMinor: bigint
  /** Larger payouts need an approval; null: none does. */
  readonly approvalAboveMinor: bigint | null
  readonly coolDownHours: number
  readonly newBeneficiaryMaxMinor: bigint
  readonly approvalHours: number
  readonly fees: readonly FeeBand[]
  readonly chargeDuty: boolean
  readonly settleTo: SettleTo | null
  readonly floorMinor: bigint
}

/** The rules of a business, or of an installation, that states none. */
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

/** What the sender owes for a transfer on a day in Lagos (YYYY-MM-DD), in kobo. */
export function dutyOf(amountMinor: bigint, day: string): bigint {
  const duty = DUTIES.findLast(({ since }) => since <= day)
  if (duty === undefined || duty.payer !== 'sender' || amountMinor < duty.fromMinor) return 0n
  return duty.dutyMinor
}

/** What is known of a requested payout when the rules are applied. */
interface Requested {
  readonly amountMinor: bigint
  /** What was requested on the day and in the month before it, in kobo. */
  readonly dayMinor: bigint
  readonly monthMinor: bigint
  /** The first time that the business paid this beneficiary; undefined: never. */
  readonly firstUsedAtMs: number | undefined
  readonly nowMs: number
}

/** Which limit of the rules a payout would exceed; undefined: none. @param whose begins the text */
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
  return undefined
}

function leftOf(max: bigint, used: bigint): bigint {
  return used > max ? 0n : max - used
}

/** Why a payout needs an approval by these rules; undefined: it needs none. */
export function approvalReason(
  { approvalAboveMinor, coolDownHours, newBeneficiaryMaxMinor }: PayoutPolicy,
  { amountMinor, firstUsedAtMs, nowMs }: Omit<Requested, 'dayMinor' | 'monthMinor'>,
): string | undefined {
  if (approvalAboveMinor !== null && amountMinor > approvalAboveMinor) {
    return `more than ${formatAmount(approvalAboveMinor)} naira`
  }
  const isNew = firstUsedAtMs === undefined || nowMs < firstUsedAtMs + coolDownHours * HOUR_MS
  if (coolDownHours > 0 && isNew && amountMinor > newBeneficiaryMaxMinor) {
    return `more than ${formatAmount(newBeneficiaryMaxMinor)} naira to a beneficiary that is new for ${coolDownHours} hours`
  }
  return undefined
}

/** The rules of a business and those of the installation; the defaults where none are stated. */
export async function readPolicies(
  em: EntityManager,
  businessId: string,
): Promise<{ readonly own: PayoutPolicy; readonly installation: PayoutPolicy | undefined }> {
  const rows = await em.find(PayoutPolicyEntity, { businessId: { $in: ['', businessId] } })
  const policyOf = (id: string) => {
    const row = rows.find((each) => each.businessId === id)
    return row && toPolicy(row)
  }
  return { own: policyOf(businessId) ?? DEFAULT_POLICY, installation: policyOf('') }
}

/** @throws Fault not_found (the business) */
export async function getPolicy({ database }: Runtime, businessId: string): Promise<PayoutPolicy> {
  const em = database.orm.em.fork()
  if (businessId !== '') await findBusiness(em, businessId)
  const row = await em.findOne(PayoutPolicyEntity, { businessId })
  if (row !== null) return toPolicy(row)
  return businessId === '' ? UNLIMITED : DEFAULT_POLICY
}

/** The rules of an installation that states none: those of each business hold alone. */
const UNLIMITED: PayoutPolicy = { ...DEFAULT_POLICY, coolDownHours: 0 }

/** Replaces the rules of a business; empty: of the installation. @throws Fault not_found, validation_failed */
export async function updatePolicy(
  { database, clock }: Runtime,
  businessId: string,
  policy: PayoutPolicy,
  actor: Actor,
): Promise<PayoutPolicy> {
  const faults = policyFaults(businessId, policy)
  if (faults.length > 0) throw invalidFields(faults)
  await database.orm.em.fork().transactional(async (em) => {
    if (businessId !== '') await findBusiness(em, businessId)
    const before = await em.findOne(PayoutPolicyEntity, { businessId })
    const details = { before: before && shown(toPolicy(before)), after: shown(policy) }
    await em.upsert(PayoutPolicyEntity, {
      businessId,
      ...policy,
      fees: policy.fees.map(textBand),
      updatedAt: new Date(clock.now()),
    })
    await appendAudit(em, actor, {
      action: 'payout_policy.update',
      targetId: businessId || 'installation',
      businessId: businessId || undefined,
      details,
    })
  })
  return policy
}

function policyFaults(businessId: string, { fees, settleTo }: PayoutPolicy): FieldFault[] {
  const isOpen = (band: FeeBand) => band.upToMinor === 0n
  const faults = fees.flatMap((band, index): FieldFault[] => {
    const before = fees[index - 1]
    const isInOrder =
      before === undefined ||
      (!isOpen(before) && (isOpen(band) || band.upToMinor > before.upToMinor))
    const field = `policy.fees[${index}].upToMinor`
    if (!isInOrder) return [{ field, message: 'must be more than that of the band before' }]
    const reach = isOpen(band) ? AMOUNT_MINOR_MAX : band.upToMinor
    if (feeOf([band], reach) <= AMOUNT_MINOR_MAX) return []
    return [{ field: `policy.fees[${index}].flatMinor`, message: 'makes a fee that is too large' }]
  })
  if (businessId !== '' || settleTo === null) return faults
  return [...faults, { field: 'policy.settleTo', message: 'is only for a business' }]
}

function toPolicy(row: InferEntity<typeof PayoutPolicyEntity>): PayoutPolicy {
  const { payoutMaxMinor, dailyMaxMinor, monthlyMaxMinor } = row
  const { coolDownHours, newBeneficiaryMaxMinor, approvalHours } = row
  return {
    payoutMaxMinor,
    dailyMaxMinor,
    monthlyMaxMinor,
    approvalAboveMinor: row.approvalAboveMinor ?? null,
    coolDownHours,
    newBeneficiaryMaxMinor,
    approvalHours,
    fees: row.fees.map(({ upToMinor, flatMinor, basisPoints, capMinor }) => ({
      upToMinor: BigInt(upToMinor),
      flatMinor: BigInt(flatMinor),
      basisPoints,
      capMinor: BigInt(capMinor),
    })),
    chargeDuty: row.chargeDuty,
    settleTo: row.settleTo ?? null,
    floorMinor: row.floorMinor,
  }
}

function textBand({ upToMinor, flatMinor, basisPoints, capMinor }: FeeBand): FeeBand<string> {
  const [upTo, flat, cap] = [`${upToMinor}`, `${flatMinor}`, `${capMinor}`]
  return { upToMinor: upTo, flatMinor: flat, basisPoints, capMinor: cap }
}

/** The rules as the audit log shows them: JSON has no `bigint`. */
function shown(policy: PayoutPolicy): Record<string, unknown> {
  const text = (value: unknown) => (typeof value === 'bigint' ? `${value}` : value)
  const { settleTo, fees, ...rest } = policy
  return {
    ...Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, text(value)])),
    fees: fees.map(textBand),
    settleTo,
  }
}
