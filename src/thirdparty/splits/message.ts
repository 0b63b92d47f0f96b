import type { MessageInitShape } from '@bufbuild/protobuf'
import type {
  Split as SplitMessage,
  SplitSchema,
} from '../../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import { NEEDS_APPROVAL, type RequestedSplit } from '../../accounts/splits/check-split.ts'
import type { FeeBearer, ShareNames, Split } from '../../accounts/splits/split.ts'
import { formatAmount, parseAmount } from '../../core/money.ts'

const NAMES: ShareNames = { points: 'percentage', amount: 'amount' }

/** @param message of a validated request */
export function readSplit(message: SplitMessage | undefined): RequestedSplit | undefined {
  if (message === undefined) return undefined
  const recipients = message.recipients.map(({ businessId, percentage, amount }) => ({
    businessId,
    // A percentage with two decimals is a number of basis points, as naira are of kobo.
    basisPoints: percentage === '' ? undefined : Number(parseAmount(percentage)),
    fixedMinor: amount === '' ? undefined : parseAmount(amount),
  }))
  const feeBearer = (message.feeBearer || 'OWNER') as FeeBearer
  return { split: { recipients, feeBearer }, names: NAMES, allowed: NEEDS_APPROVAL }
}

export function toSplit({ recipients, feeBearer }: Split): MessageInitShape<typeof SplitSchema> {
  return {
    recipients: recipients.map(({ businessId, basisPoints, fixedMinor }) => ({
      businessId,
      percentage: basisPoints === undefined ? '' : formatAmount(BigInt(basisPoints)),
      amount: fixedMinor === undefined ? '' : formatAmount(fixedMinor),
    })),
    feeBearer,
  }
}
