import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
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
  PayoutBatchSchema,
  type PayoutItem,
  type Payout as PayoutMessage,
  PayoutPolicySchema,
  PayoutSchema,
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
import { enumName, fromTimestamp, toOptionalTimestamp } from '../protobuf/values.ts'
import type { Batch, BatchItem } from './batch.ts'
import type { Discrepancy, Line } from './discrepancy.ts'
import { isBusiness, type Pause, type PauseTarget, type Payout, type Step } from './payout.ts'
import type { PayoutPolicy } from './policy.ts'

/** Stands for the tokens and users whose names a caller that is restricted to businesses does not see. */
const OPERATOR = 'operator'

/** An actor as a restricted caller sees it. @param own the caller as an actor */
export function actorShown(actor: string, own: string): string {
  const isShown = actor === '' || actor === 'system' || actor === own || isBusiness(actor)
  return isShown ? actor : OPERATOR
}

/** A payout as a restricted caller sees it, without the notes of operators. */
export function payoutShown(payout: Payout, own: string): Payout {
  const requestedBy = actorShown(payout.requestedBy, own)
  const decidedBy = actorShown(payout.decidedBy, own)
  const decisionNote = decidedBy === OPERATOR ? '' : payout.decisionNote
  return { ...payout, requestedBy, decidedBy, decisionNote }
}

/** A step as a restricted caller sees it. The text of a decision ends with its note; what was requested has its reason. */
export function stepShown(step: Step, own: string): Step {
  const actor = actorShown(step.actor, own)
  const isNoted = actor === OPERATOR && !step.text.startsWith('requested')
  return { ...step, actor, text: isNoted ? step.text.replace(/: .*/s, '') : step.text }
}

/** A pause as a restricted caller sees it. Those of all payouts and of banks are about others too. */
export function pauseShown(pause: Pause, own: string): Pause {
  return pause.scope === 'BUSINESS'
    ? { ...pause, pausedBy: actorShown(pause.pausedBy, own) }
    : { ...pause, reason: '', pausedBy: '' }
}

export function toPayoutMessage(payout: Payout): PayoutMessage {
  const { bank, ...fields } = payout
  return create(PayoutSchema, {
    ...fields,
    purpose: PurposeMessage[payout.purpose],
    status: StatusMessage[payout.status],
    currency: CURRENCY,
    beneficiary: payout.destination,
    ...(bank && { bank: fromBankCode(bank) }),
    createdAt: timestampFromMs(payout.createdAtMs),
    expiresAt: toOptionalTimestamp(payout.expiresAtMs),
    nextAt: toOptionalTimestamp(payout.nextAtMs),
    submittedAt: toOptionalTimestamp(payout.submittedAtMs),
    completedAt: toOptionalTimestamp(payout.completedAtMs),
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

/** Encodes the event of a payout without its position in the event log. It leaves out the notes of operators. */
export function encodePayoutEvent(
  payout: Payout,
  {
    kind,
    eventId,
    nowMs,
  }: { readonly kind: string; readonly eventId: string; readonly nowMs: number },
): Uint8Array {
  const value = toPayoutMessage({ ...payout, decidedBy: '', decisionNote: '', nextAtMs: undefined })
  return encodeEvent({
    id: eventId,
    businessId: payout.businessId,
    kind,
    occurredAt: timestampFromMs(nowMs),
    live: payout.live,
    payload: { case: 'payout', value },
  })
}

export function toStepMessage({ atMs, status, actor, text }: Step): StepMessage {
  const fields = { at: timestampFromMs(atMs), status: StatusMessage[status], actor, text }
  return create(PayoutStepSchema, fields)
}

export function toLine(message: LineMessage): Line {
  const { reference, sessionId, amountMinor, accountNumber, state } = message
  const atMs = message.at && fromTimestamp(message.at)
  // Validation has rejected an unspecified state.
  const name = (enumName(OutgoingState, state) ?? 'PENDING').toLowerCase() as Line['state']
  return { reference, sessionId, amountMinor, accountNumber, atMs, state: name }
}

export function toDiscrepancyMessage(found: Discrepancy): DiscrepancyMessage {
  const { kind, bank, foundAtMs, resolvedAtMs, lineKey: _, ...rest } = found
  return create(PayoutDiscrepancySchema, {
    ...rest,
    kind: PayoutDiscrepancyKind[kind],
    bank: fromBankCode(bank),
    foundAt: timestampFromMs(foundAtMs),
    resolvedAt: toOptionalTimestamp(resolvedAtMs),
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
  return { scope: enumName(PauseScope, scope) as PauseTarget['scope'], target }
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
  // All that is left is stored, and shown in the audit log.
  const { $typeName: _, $unknown: __, businessId: ___, ...policy } = message
  return {
    ...policy,
    approvalAboveMinor: policy.approvalAboveMinor ?? null,
    approvalHours: policy.approvalHours || 72,
    fees: policy.fees.map(({ $typeName: _, $unknown: __, ...band }) => band),
    settleTo: policy.settleTo ?? null,
  }
}
