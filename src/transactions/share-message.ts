import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { CURRENCY } from '../core/money.ts'
import { encodeEvent } from '../events/message.ts'

/** The event of a recipient, encoded without its position in the log. It states nothing about payers and customers. */
export function encodeShareEvent(
  { kind, subjectId, ownerId, live, atMs }: ShareChange,
  ownerName: string,
  { businessId, count, amountMinor }: Share,
  eventId: string,
): Uint8Array {
  const event = create(EventSchema, {
    id: eventId,
    businessId,
    kind,
    occurredAt: timestampFromMs(atMs),
    live,
    payload: {
      case: 'share',
      value: {
        ownerBusinessId: ownerId,
        ownerName,
        [kind === 'SHARE_SETTLED' ? 'settlementId' : 'transactionId']: subjectId,
        transactionCount: BigInt(count),
        amountMinor,
        currency: CURRENCY,
      },
    },
  })
  return encodeEvent(event)
}

/** What a business gets of some payments of another one, or gives back. */
export interface Share {
  /** The recipient. */
  readonly businessId: string
  /** The number of payments. */
  readonly count: number
  readonly amountMinor: bigint
}

/** What happened to the shares of an owner's payments. */
export interface ShareChange {
  readonly kind: 'SHARE_SETTLED' | 'SHARE_REVERSED'
  /** The settlement of the owner, or the reversed transaction. */
  readonly subjectId: string
  readonly ownerId: string
  readonly live: boolean
  readonly atMs: number
}
