import { create } from '@bufbuild/protobuf'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
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
import { toTimestamp } from '../protobuf/values.ts'
import type { NotificationState } from './notification.entity.ts'
import type { Processed } from './store.ts'

/** What an operator sees of a notification without its body. */
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
  const { resolvedAtMs } = shown
  return create(NotificationSchema, {
    id: shown.id,
    bank: fromBankCode(shown.bank),
    receivedAt: toTimestamp(shown.receivedAtMs),
    accountNumber: shown.accountNumber,
    sessionId: shown.sessionId,
    amountMinor: shown.amountMinor,
    state: StateMessage[shown.state],
    cause: shown.cause,
    ...(shown.outcome && { result: ResultMessage[shown.outcome] }),
    tries: shown.tries,
    ...(resolvedAtMs !== undefined && { resolvedAt: toTimestamp(resolvedAtMs) }),
    note: shown.note ?? '',
  })
}

/** @returns undefined for UNSPECIFIED */
export function toNotificationState(state: StateMessage): NotificationState | undefined {
  const names: readonly NotificationState[] = ['PENDING', 'PROCESSED', 'MANUAL_REVIEW']
  return names.find((name) => StateMessage[name] === state)
}

/** @returns undefined if there are none: any outcome */
export function toOutcomes(
  results: readonly ResultMessage[],
): readonly NotificationOutcome[] | undefined {
  if (results.length === 0) return undefined
  // The contract has the same names.
  const names = Object.keys(ResultMessage) as (keyof typeof ResultMessage)[]
  return names.filter(
    (name): name is NotificationOutcome =>
      name !== 'UNSPECIFIED' && results.includes(ResultMessage[name]),
  )
}

/** Adds the event that a notification is held, if it is. */
export function withHeldEvent(
  processed: Processed,
  facts: Omit<ShownNotification, 'state' | 'cause' | 'tries'>,
  tries: number,
  nowMs: number,
): Processed {
  const { state, cause } = processed
  if (state !== 'MANUAL_REVIEW') return processed
  const id = newId('evt', nowMs)
  const event = create(EventSchema, {
    id,
    kind: 'PAYMENT_HELD',
    occurredAt: toTimestamp(nowMs),
    payload: {
      case: 'heldNotification',
      value: toNotificationMessage({ ...facts, state, cause, tries }),
    },
  })
  return { ...processed, heldEvent: { id, occurredAtMs: nowMs, payload: encodeEvent(event) } }
}
