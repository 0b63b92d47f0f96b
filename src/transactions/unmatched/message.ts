import { create } from '@bufbuild/protobuf'
import { EventSchema } from '../../../gen/inflow/event/v1/event_pb.ts'
import {
  Resolution as ResolutionMessage,
  type UnmatchedPayment as UnmatchedMessage,
  UnmatchedPaymentSchema,
} from '../../../gen/inflow/reconciliation/v1/unmatched_payment_pb.ts'
import { fromBankCode } from '../../banks/message.ts'
import { CURRENCY } from '../../core/money.ts'
import { encodeEvent } from '../../events/message.ts'
import { toTimestamp } from '../../protobuf/timestamp.ts'
import { fromStatus } from '../message.ts'
import type { Resolution, StoredUnmatched, UnmatchedPayment } from './unmatched-payment.ts'

const RESOLUTIONS: Readonly<Record<Resolution, ResolutionMessage>> = {
  ASSIGNED: ResolutionMessage.ASSIGNED,
  RETURNED: ResolutionMessage.RETURNED,
}

export function toUnmatchedMessage(payment: UnmatchedPayment | StoredUnmatched): UnmatchedMessage {
  const { payer } = payment
  return create(UnmatchedPaymentSchema, {
    id: payment.id,
    bank: fromBankCode(payment.bank),
    accountNumber: payment.accountNumber,
    sessionId: payment.sessionId,
    amountMinor: payment.amountMinor,
    currency: CURRENCY,
    status: fromStatus(payment.status),
    paidAt: toTimestamp(payment.paidAtMs),
    payer: {
      name: payer.name,
      accountNumber: payer.accountNumber,
      bankCode: payer.bankCode,
      bankName: payer.bankName,
    },
    narration: payment.narration,
    createdAt: toTimestamp(payment.createdAtMs),
    ...('note' in payment && resolutionOf(payment)),
  })
}

function resolutionOf({ resolution, resolvedAtMs, note, transactionId }: StoredUnmatched) {
  return {
    note,
    transactionId: transactionId ?? '',
    ...(resolution && { resolution: RESOLUTIONS[resolution] }),
    ...(resolvedAtMs !== undefined && { resolvedAt: toTimestamp(resolvedAtMs) }),
  }
}

/** Encodes the event of an unmatched payment, which belongs to no business. */
export function encodeUnmatchedEvent(payment: UnmatchedPayment, eventId: string): Uint8Array {
  const event = create(EventSchema, {
    id: eventId,
    kind: 'PAYMENT_UNMATCHED',
    occurredAt: toTimestamp(payment.createdAtMs),
    payload: { case: 'unmatchedPayment', value: toUnmatchedMessage(payment) },
    traceparent: payment.traceparent ?? '',
  })
  return encodeEvent(event)
}
