import { create } from '@bufbuild/protobuf'
import {
  type Notification,
  NotificationSchema,
  NotificationResult as ResultMessage,
  NotificationState as StateMessage,
} from '../../gen/inflow/notification/v1/notification_pb.ts'
import type { BankCode, NotificationOutcome } from '../banks/bank.ts'
import { fromBankCode } from '../banks/message.ts'
import { newId } from '../core/ids.ts'
import { encodeEvent } from '../events/message.ts'
import { toOptionalTimestamp, toTimestamp } from '../protobuf/values.ts'
import type { NotificationState } from './notification.entity.ts'
import type { Processed } from './store.ts'

/** The fields of a notification that an operator sees without viewing its body. */
export interface ShownNotification {
  readonly id: string
  readonly bank: BankCode
  readonly receivedAtMs: number
  readonly accountNumber: string
  readonly sessionId: string
  readonly amountMinor: bigint
  readonly state: NotificationState
  /** Absent in events. */
  readonly outcome?: NotificationOutcome
  readonly cause: string
  readonly tries: number
  readonly resolvedAtMs?: number | undefined
  readonly note?: string
}

export function toNotificationMessage(shown: ShownNotification): Notification {
  return create(NotificationSchema, {
    ...shown,
    bank: fromBankCode(shown.bank),
    receivedAt: toTimestamp(shown.receivedAtMs),
    state: StateMessage[shown.state],
    ...(shown.outcome && { result: ResultMessage[shown.outcome] }),
    resolvedAt: toOptionalTimestamp(shown.resolvedAtMs),
  })
}

/** Adds the event of a held notification to a result that holds the notification. */
export function withHeldEvent(
  processed: Processed,
  facts: Omit<ShownNotification, 'state' | 'cause' | 'tries'>,
  tries: number,
  nowMs: number,
): Processed {
  const { state, cause } = processed
  if (state !== 'MANUAL_REVIEW') return processed
  const id = newId('evt', nowMs)
  const payload = encodeEvent({
    id,
    kind: 'PAYMENT_HELD',
    occurredAt: toTimestamp(nowMs),
    payload: {
      case: 'heldNotification',
      value: toNotificationMessage({ ...facts, state, cause, tries }),
    },
  })
  return { ...processed, heldEvent: { id, occurredAtMs: nowMs, payload } }
}
