import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  type PayoutDiscrepancy as DiscrepancyMessage,
  type OutgoingLine as LineMessage,
  OutgoingState,
  PayoutDiscrepancyKind,
  PayoutDiscrepancySchema,
} from '../../gen/inflow/payout/v1/payout_discrepancy_pb.ts'
import {
  type PayoutBatch as BatchMessage,
  type Pause as PauseMessage,
  PauseSchema,
  PauseScope,
  PauseScopeSchema,
  PayoutBatchSchema,
  type PayoutItem,
  type Payout as PayoutMessage,
  PayoutPolicySchema,
  PayoutPurposeSchema,
  PayoutSchema,
  PayoutStatusSchema,
  PayoutStepSchema,
  type PayoutPolicy as PolicyMessage,
  PayoutPurpose as PurposeMessage,
  PayoutStatus as StatusMessage,
  type PayoutStep as StepMessage,
} from '../../gen/inflow/payout/v1/payout_pb.ts'
import type { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import type { BankCode } from '../banks/bank.ts'
import { fromBankCode, toBankCode } from '../banks/message.ts'
import { assert } from '../core/errors.ts'
import { CURRENCY } from '../core/money.ts'
import { encodeEvent } from '../events/message.ts'
import { fromTimestamp } from '../protobuf/values.ts'
import type { Batch, BatchItem } from './batch.ts'
import type { Discrepancy, Line } from './discrepancy.ts'
import type { Pause, PauseTarget, Payout, PayoutPurpose, PayoutStatus, Step } from './payout.ts'
import type { PayoutPolicy } from './policy.ts'

const at = (atMs: number | undefined) => (atMs === undefined ? undefined : timestampFromMs(atMs))

export function toPayoutMessage(payout: Payout): PayoutMessage {
  const { expiresAtMs, nextAtMs, submittedAtMs, completedAtMs } = payout
  return create(PayoutSchema, {
    id: payout.id,
    businessId: payout.businessId,
    live: payout.live,
    reference: payout.reference,
    purpose: PurposeMessage[payout.purpose],
    status: StatusMessage[payout.status],
    amountMinor: payout.amountMinor,
    feeMinor: payout.feeMinor,
    dutyMinor: payout.dutyMinor,
    currency: CURRENCY,
    beneficiary: payout.destination,
    narration: payout.narration,
    ...(payout.bank && { bank: fromBankCode(payout.bank) }),
    bankReference: payout.bankReference,
    routing: payout.routing,
    sessionId: payout.sessionId,
    failureReason: payout.failureReason,
    detail: payout.detail,
    requestedBy: payout.requestedBy,
    approvalReason: payout.approvalReason,
    decidedBy: payout.decidedBy,
    decisionNote: payout.decisionNote,
    createdAt: timestampFromMs(payout.createdAtMs),
    ...(expiresAtMs !== undefined && { expiresAt: at(expiresAtMs) }),
    ...(nextAtMs !== undefined && { nextAt: at(nextAtMs) }),
    ...(submittedAtMs !== undefined && { submittedAt: at(submittedAtMs) }),
    ...(completedAtMs !== undefined && { completedAt: at(completedAtMs) }),
    transactionId: payout.transactionId,
    settlementId: payout.settlementId,
    batchId: payout.batchId,
    refundedSessionId: payout.refundedSessionId,
    unmatchedPaymentId: payout.unmatchedPaymentId,
  })
}

export function toBatchMessage(batch: Batch): BatchMessage {
  const { detailsHash: _, approvalReason: __, createdAtMs, ...fields } = batch
  return create(PayoutBatchSchema, { ...fields, createdAt: timestampFromMs(createdAtMs) })
}

export function toBatchItem({
  reference,
  amountMinor,
  beneficiary,
  narration,
}: PayoutItem): BatchItem {
  assert(beneficiary, 'validation requires a beneficiary')
  const { bankCode, accountNumber, accountName } = beneficiary
  return { reference, amountMinor, bankCode, accountNumber, accountName, narration }
}

/** The event of a payout, encoded without its position in the event log. What operators note about it is left out. */
export function encodePayoutEvent(
  payout: Payout,
  {
    kind,
    eventId,
    nowMs,
  }: { readonly kind: string; readonly eventId: string; readonly nowMs: number },
): Uint8Array {
  const value = toPayoutMessage({ ...payout, decidedBy: '', decisionNote: '', nextAtMs: undefined })
  const event = create(EventSchema, {
    id: eventId,
    businessId: payout.businessId,
    kind,
    occurredAt: timestampFromMs(nowMs),
    live: payout.live,
    payload: { case: 'payout', value },
  })
  return encodeEvent(event)
}

/** @returns undefined for a value that is not specified */
export function toStatus(status: StatusMessage): PayoutStatus | undefined {
  if (status === StatusMessage.UNSPECIFIED) return undefined
  return PayoutStatusSchema.value[status]?.localName as PayoutStatus | undefined
}

/** @returns undefined for a value that is not specified */
export function toPurpose(purpose: PurposeMessage): PayoutPurpose | undefined {
  if (purpose === PurposeMessage.UNSPECIFIED) return undefined
  return PayoutPurposeSchema.value[purpose]?.localName as PayoutPurpose | undefined
}

export function toStepMessage({ atMs, status, actor, text }: Step): StepMessage {
  const fields = { at: timestampFromMs(atMs), status: StatusMessage[status], actor, text }
  return create(PayoutStepSchema, fields)
}

/** A state is validated: it is specified. */
const LINE_STATES: Readonly<Record<number, Line['state']>> = {
  [OutgoingState.PAID]: 'paid',
  [OutgoingState.FAILED]: 'failed',
  [OutgoingState.PENDING]: 'pending',
  [OutgoingState.RETURNED]: 'returned',
}

export function toLine(message: LineMessage): Line {
  const { reference, sessionId, amountMinor, accountNumber, state } = message
  const atMs = message.at && fromTimestamp(message.at)
  return {
    reference,
    sessionId,
    amountMinor,
    accountNumber,
    atMs,
    state: LINE_STATES[state] ?? 'pending',
  }
}

export function toDiscrepancyMessage(found: Discrepancy): DiscrepancyMessage {
  const { kind, bank, foundAtMs, resolvedAtMs, lineKey: _, ...rest } = found
  return create(PayoutDiscrepancySchema, {
    ...rest,
    kind: PayoutDiscrepancyKind[kind],
    bank: fromBankCode(bank),
    foundAt: timestampFromMs(foundAtMs),
    ...(resolvedAtMs !== undefined && { resolvedAt: at(resolvedAtMs) }),
  })
}

export function toPauseTarget({
  scope,
  businessId,
  bank,
}: {
  readonly scope: PauseScope
  readonly businessId: string
  readonly bank: Bank
}): PauseTarget {
  const target = scope === PauseScope.BANK ? toBankCode(bank) : businessId
  return { scope: PauseScopeSchema.value[scope]?.localName as PauseTarget['scope'], target }
}

export function toPauseMessage({
  scope,
  target,
  reason,
  pausedBy,
  pausedAtMs,
}: Pause): PauseMessage {
  return create(PauseSchema, {
    scope: PauseScope[scope],
    ...(scope === 'BUSINESS' && { businessId: target }),
    ...(scope === 'BANK' && { bank: fromBankCode(target as BankCode) }),
    reason,
    pausedBy,
    pausedAt: timestampFromMs(pausedAtMs),
  })
}

export function toPolicyMessage(businessId: string, policy: PayoutPolicy): PolicyMessage {
  const { approvalAboveMinor, settleTo, fees, ...rest } = policy
  return create(PayoutPolicySchema, {
    businessId,
    ...rest,
    fees: [...fees],
    ...(approvalAboveMinor !== null && { approvalAboveMinor }),
    ...(settleTo !== null && { settleTo }),
  })
}

export function toPolicy(message: PolicyMessage): PayoutPolicy {
  const { payoutMaxMinor, dailyMaxMinor, monthlyMaxMinor, approvalAboveMinor } = message
  const { coolDownHours, newBeneficiaryMaxMinor, chargeDuty, floorMinor, settleTo } = message
  return {
    payoutMaxMinor,
    dailyMaxMinor,
    monthlyMaxMinor,
    approvalAboveMinor: approvalAboveMinor ?? null,
    coolDownHours,
    newBeneficiaryMaxMinor,
    approvalHours: message.approvalHours || 72,
    fees: message.fees.map(({ upToMinor, flatMinor, basisPoints, capMinor }) => ({
      upToMinor,
      flatMinor,
      basisPoints,
      capMinor,
    })),
    chargeDuty,
    settleTo: settleTo
      ? {
          bankCode: settleTo.bankCode,
          accountNumber: settleTo.accountNumber,
          accountName: settleTo.accountName,
        }
      : null,
    floorMinor,
  }
}
