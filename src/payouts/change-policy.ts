import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { findBusiness, getBusiness } from '../businesses/get-business.ts'
import { type FieldFault, invalidFields } from '../core/errors.ts'
import { AMOUNT_MINOR_MAX } from '../core/money.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { queryableOf } from '../postgres/queries-of.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { PayoutPolicyEntity } from './payout.entity.ts'
import { DEFAULT_POLICY, type FeeBand, feeOf, type PayoutPolicy, type SettleTo } from './policy.ts'
import { type NameContext, resolveAccount } from './resolve-name.ts'

/** The rules of a business (the defaults if it has none), and the rules of the installation if it has any. */
export async function readPolicies(
  on: Queryable,
  businessId: string,
): Promise<{ readonly own: PayoutPolicy; readonly installation: PayoutPolicy | undefined }> {
  const stated = await readStated(on, businessId)
  return { own: stated.get(businessId) ?? DEFAULT_POLICY, installation: stated.get('') }
}

/** The stored rules by business id. The rules of the installation have an empty id. */
async function readStated(
  on: Queryable,
  businessId: string,
): Promise<ReadonlyMap<string, PayoutPolicy>> {
  const { rows } = await on.query<PolicyRow>({
    name: 'payout-policies',
    text: `select business_id as "businessId", payout_max_minor as "payoutMaxMinor",
        daily_max_minor as "dailyMaxMinor", monthly_max_minor as "monthlyMaxMinor",
        approval_above_minor as "approvalAboveMinor", cool_down_hours as "coolDownHours",
        new_beneficiary_max_minor as "newBeneficiaryMaxMinor", approval_hours as "approvalHours", fees,
        charge_duty as "chargeDuty", settle_to as "settleTo", floor_minor as "floorMinor"
      from payout_policy where business_id = any (array['', $1])`,
    values: [businessId],
  })
  return new Map(rows.map((row) => [row.businessId, toPolicy(row)]))
}

/** @throws Fault not_found (the business) */
export async function getPolicy({ database }: Runtime, businessId: string): Promise<PayoutPolicy> {
  if (businessId !== '') await getBusiness(database, businessId)
  const { own, installation } = await readPolicies(database.durablePool, businessId)
  return businessId === '' ? (installation ?? DEFAULT_POLICY) : own
}

/**
 * Replaces the rules of a business, or those of the installation if `businessId` is empty. A new account for settlements
 * is verified by a name enquiry.
 *
 * @throws Fault not_found, validation_failed, name_mismatch, bank_unavailable
 */
export async function updatePolicy(
  context: Runtime & NameContext,
  businessId: string,
  requested: PayoutPolicy,
  actor: Actor,
): Promise<PayoutPolicy> {
  const { database, clock } = context
  const faults = policyFaults(businessId, requested)
  if (faults.length > 0) throw invalidFields(faults)
  const settleTo = await nameSettleTo(context, businessId, requested)
  const policy = { ...requested, settleTo }
  await database.orm.em.fork().transactional(async (em) => {
    if (businessId !== '') await findBusiness(em, businessId)
    const before = (await readStated(queryableOf(em), businessId)).get(businessId)
    const details = { before: before ? shown(before) : null, after: shown(policy) }
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

/** Verifies the account for settlements by a name enquiry, unless the current rules already name it. */
async function nameSettleTo(
  context: Runtime & NameContext,
  businessId: string,
  { settleTo }: PayoutPolicy,
): Promise<SettleTo | null> {
  if (settleTo === null) return null
  const before = (await getPolicy(context, businessId)).settleTo
  const { bankCode, accountNumber, accountName } = settleTo
  const isSame =
    before !== null &&
    before.accountNumber === accountNumber &&
    before.bankCode === context.institutions.find(bankCode)?.code &&
    (accountName === '' || before.accountName === accountName)
  if (isSame) return before
  const account = { ...settleTo, field: 'policy.settleTo' }
  const owner = { businessId, live: true }
  const request = { resolution: '', account }
  const { destination } = await resolveAccount(context, owner, request, context.clock.now())
  return {
    bankCode: destination.bankCode,
    accountNumber: destination.accountNumber,
    accountName: destination.accountName,
  }
}

function policyFaults(businessId: string, { fees, settleTo }: PayoutPolicy): FieldFault[] {
  const isOpen = (band: FeeBand) => band.upToMinor === 0n
  const faults = fees.flatMap((band, index): FieldFault[] => {
    const before = fees[index - 1]
    const isInOrder =
      before === undefined ||
      (!isOpen(before) && (isOpen(band) || band.upToMinor > before.upToMinor))
    const field = `policy.fees[${index}].upToMinor`
    if (!isInOrder) return [{ field, message: 'must be more than the limit of the previous band' }]
    const reach = isOpen(band) ? AMOUNT_MINOR_MAX : band.upToMinor
    if (feeOf([band], reach) <= AMOUNT_MINOR_MAX) return []
    return [{ field: `policy.fees[${index}].flatMinor`, message: 'makes the fee too large' }]
  })
  if (businessId !== '' || settleTo === null) return faults
  return [...faults, { field: 'policy.settleTo', message: 'can only be set for a business' }]
}

type Minor =
  | 'payoutMaxMinor'
  | 'dailyMaxMinor'
  | 'monthlyMaxMinor'
  | 'newBeneficiaryMaxMinor'
  | 'floorMinor'

/** The rules as they are stored. */
interface PolicyRow
  extends Omit<PayoutPolicy, Minor | 'approvalAboveMinor' | 'fees'>,
    Readonly<Record<Minor, string>> {
  readonly businessId: string
  readonly approvalAboveMinor: string | null
  readonly fees: readonly FeeBand<string>[]
}

function toPolicy({ businessId: _, ...row }: PolicyRow): PayoutPolicy {
  return {
    ...row,
    payoutMaxMinor: BigInt(row.payoutMaxMinor),
    dailyMaxMinor: BigInt(row.dailyMaxMinor),
    monthlyMaxMinor: BigInt(row.monthlyMaxMinor),
    approvalAboveMinor: row.approvalAboveMinor === null ? null : BigInt(row.approvalAboveMinor),
    newBeneficiaryMaxMinor: BigInt(row.newBeneficiaryMaxMinor),
    fees: row.fees.map(({ upToMinor, flatMinor, basisPoints, capMinor }) => ({
      upToMinor: BigInt(upToMinor),
      flatMinor: BigInt(flatMinor),
      basisPoints,
      capMinor: BigInt(capMinor),
    })),
    floorMinor: BigInt(row.floorMinor),
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
