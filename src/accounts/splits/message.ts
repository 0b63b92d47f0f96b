import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import {
  ApprovedRecipientSchema,
  FeeBearer as FeeBearerMessage,
  type Split as SplitMessage,
  SplitSchema,
} from '../../../gen/inflow/account/v1/split_pb.ts'
import type { Approval } from './approvals.ts'
import type { RequestedSplit } from './check-split.ts'
import { FEE_BEARERS, type FeeBearer, type ShareNames, type Split } from './split.ts'

const BEARERS: Readonly<Record<FeeBearer, FeeBearerMessage>> = {
  OWNER: FeeBearerMessage.OWNER,
  SHARED: FeeBearerMessage.SHARED,
}

const NAMES: ShareNames = { points: 'basisPoints', amount: 'amountMinor' }

export function toSplitMessage({ recipients, feeBearer }: Split): SplitMessage {
  return create(SplitSchema, {
    recipients: recipients.map(({ businessId, basisPoints = 0, fixedMinor = 0n }) => {
      return { businessId, basisPoints, amountMinor: fixedMinor }
    }),
    feeBearer: BEARERS[feeBearer],
  })
}

export function toRecipientMessage({ approvedAt, ...key }: Approval) {
  return create(ApprovedRecipientSchema, { ...key, approvedAt: timestampFromDate(approvedAt) })
}

/** @param message of a validated request */
export function readSplit(
  message: SplitMessage | undefined,
  allowed: ReadonlySet<string> | undefined,
): RequestedSplit | undefined {
  if (message === undefined) return undefined
  const recipients = message.recipients.map(({ businessId, basisPoints, amountMinor }) => ({
    businessId,
    basisPoints: basisPoints === 0 ? undefined : basisPoints,
    fixedMinor: amountMinor === 0n ? undefined : amountMinor,
  }))
  const feeBearer = FEE_BEARERS.find((each) => BEARERS[each] === message.feeBearer) ?? 'OWNER'
  return { split: { recipients, feeBearer }, names: NAMES, allowed }
}
