import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  type Balance as BalanceMessage,
  BalanceSchema,
  type Entry as EntryMessage,
  EntrySchema,
  Schedule as ScheduleMessage,
  SettlementDaySchema,
  type Settlement as SettlementMessage,
  SettlementSchema,
  SettlementStatus as StatusMessage,
  type Terms as TermsMessage,
  TermsSchema,
} from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { assert } from '../core/errors.ts'
import { CURRENCY } from '../core/money.ts'
import { encodeEvent } from '../events/message.ts'
import { toInt64, toOptionalTimestamp } from '../protobuf/values.ts'
import type { CalendarDay } from './get-calendar.ts'
import type { Entry } from './list-entries.ts'
import { SCHEDULES } from './schedule.ts'
import {
  type Balance,
  netOf,
  percentDone,
  type Settlement,
  type SettlementPayout,
} from './settlement.ts'
import type { Terms } from './terms.ts'

/** @param payout how the settlement is paid out to a bank account; undefined: it is not paid out, or not shown */
export function toSettlementMessage(
  settlement: Settlement,
  payout?: SettlementPayout,
): SettlementMessage {
  return create(SettlementSchema, {
    ...settlement,
    requestId: settlement.idempotencyKey,
    status: StatusMessage[settlement.status],
    cutOffAt: timestampFromMs(settlement.cutOffAtMs),
    netMinor: netOf(settlement),
    currency: CURRENCY,
    startedAt: timestampFromMs(settlement.startedAtMs),
    completedAt: toOptionalTimestamp(settlement.completedAtMs),
    percentDone: percentDone(settlement),
    ...(payout && { payout: { ...payout, nextAt: toOptionalTimestamp(payout.nextAtMs) } }),
  })
}

/** The SETTLEMENT_COMPLETED event, encoded without its position in the event log. */
export function encodeSettlementEvent(
  settlement: Settlement,
  eventId: string,
  occurredAtMs: number,
): Uint8Array {
  return encodeEvent({
    id: eventId,
    businessId: settlement.businessId,
    kind: 'SETTLEMENT_COMPLETED',
    occurredAt: timestampFromMs(occurredAtMs),
    live: settlement.live,
    payload: { case: 'settlement', value: toSettlementMessage(settlement) },
  })
}

/** @param reservedMinor the sum that is reserved for payouts; a statement does not show it */
export function toBalanceMessage(balance: Balance, reservedMinor = 0n): BalanceMessage {
  return create(BalanceSchema, {
    pendingMinor: toInt64(balance.pendingMinor),
    availableMinor: toInt64(balance.availableMinor),
    feesMinor: toInt64(balance.feesMinor),
    currency: CURRENCY,
    reservedMinor: toInt64(reservedMinor),
  })
}

export function toDayMessage({ day, isWorkingDay, holidayName, settled, due }: CalendarDay) {
  const sums = settled ?? { grossMinor: 0n, feesMinor: 0n, splitsMinor: 0n }
  return create(SettlementDaySchema, {
    day,
    workingDay: isWorkingDay,
    holidayName,
    settlementCount: settled?.settlements ?? 0n,
    transactionCount: settled?.transactions ?? 0n,
    ...toTotals(sums),
    dueBalanceCount: due.balances,
    dueTransactionCount: due.transactions,
    dueGrossMinor: toInt64(due.grossMinor),
  })
}

/** The sums of several settlements, or of the preview of one. */
export function toTotals(sums: Parameters<typeof netOf>[0]) {
  return {
    grossMinor: toInt64(sums.grossMinor),
    feesMinor: toInt64(sums.feesMinor),
    splitsMinor: toInt64(sums.splitsMinor),
    netMinor: toInt64(netOf(sums)),
  }
}

/** Whether the subject of a kind of entry is a settlement. */
export function isSettlement(kind: string): boolean {
  return kind === 'SETTLEMENT_COMPLETED' || kind === 'SHARE_SETTLED'
}

/** Whether the subject of a kind of entry is a payout or a refund. */
export function isPayout(kind: string): boolean {
  return /^(PAYOUT|REFUND)_/.test(kind)
}

export function toEntryMessage(entry: Entry): EntryMessage {
  const settles = isSettlement(entry.kind)
  const pays = isPayout(entry.kind)
  return create(EntrySchema, {
    ...entry,
    bookedAt: timestampFromMs(entry.bookedAtMs),
    transactionId: settles || pays ? '' : entry.subjectId,
    settlementId: settles ? entry.subjectId : '',
    payoutId: pays ? entry.subjectId : '',
  })
}

export function toTermsMessage(terms: Terms): TermsMessage {
  const { cutOffMinutes } = terms
  const pad = (part: number) => String(part).padStart(2, '0')
  const cutOff = `${pad(Math.floor(cutOffMinutes / 60))}:${pad(cutOffMinutes % 60)}`
  return create(TermsSchema, {
    schedule: ScheduleMessage[terms.schedule],
    workingDays: terms.workingDays,
    cutOff: terms.schedule === 'INSTANT' ? '' : cutOff,
    feeFlatMinor: terms.feeFlatMinor,
    feeBasisPoints: terms.feeBasisPoints,
    feeCapMinor: terms.feeCapMinor,
  })
}

/** @param message a validated message */
export function toTerms(message: TermsMessage): Terms {
  const schedule = SCHEDULES.find((name) => ScheduleMessage[name] === message.schedule)
  assert(schedule, 'validation requires a schedule')
  const [hours = 0, minutes = 0] = message.cutOff.split(':').map(Number)
  return {
    schedule,
    workingDays: message.workingDays,
    cutOffMinutes: hours * 60 + minutes,
    feeFlatMinor: message.feeFlatMinor,
    feeBasisPoints: message.feeBasisPoints,
    feeCapMinor: message.feeCapMinor,
  }
}
