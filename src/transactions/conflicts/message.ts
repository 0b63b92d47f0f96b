import { create } from '@bufbuild/protobuf'
import { EventSchema } from '../../../gen/inflow/event/v1/event_pb.ts'
import {
  type PaymentConflict as ConflictMessage,
  PaymentConflictSchema,
} from '../../../gen/inflow/reconciliation/v1/payment_conflict_pb.ts'
import { fromBankCode } from '../../banks/message.ts'
import { encodeEvent } from '../../events/message.ts'
import { toTimestamp } from '../../protobuf/timestamp.ts'
import { fromStatus } from '../message.ts'
import type { ListedConflict, StoredConflict } from './payment-conflict.ts'

export function toConflictMessage(conflict: StoredConflict | ListedConflict): ConflictMessage {
  return create(PaymentConflictSchema, {
    id: conflict.id,
    bank: fromBankCode(conflict.bank),
    transactionId: conflict.transaction,
    sessionId: conflict.sessionId,
    accountNumber: conflict.accountNumber,
    amountMinor: conflict.amountMinor,
    status: fromStatus(conflict.status),
    createdAt: toTimestamp(conflict.createdAt.getTime()),
    ...('recorded' in conflict && {
      note: conflict.note,
      ...(conflict.resolvedAtMs !== undefined && {
        resolvedAt: toTimestamp(conflict.resolvedAtMs),
      }),
      ...conflict.recorded,
    }),
  })
}

/** Encodes the event that a contradicting report waits for manual review. It belongs to no business. */
export function encodeConflictEvent(
  conflict: StoredConflict,
  eventId: string,
  nowMs: number,
): Uint8Array {
  const event = create(EventSchema, {
    id: eventId,
    kind: 'PAYMENT_HELD',
    occurredAt: toTimestamp(nowMs),
    payload: { case: 'paymentConflict', value: toConflictMessage(conflict) },
  })
  return encodeEvent(event)
}
