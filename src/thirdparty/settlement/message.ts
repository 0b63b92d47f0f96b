import { create } from '@bufbuild/protobuf'
import {
  type Settlement as SettlementMessage,
  SettlementSchema,
  type StatementEntry,
  StatementEntrySchema,
} from '../../../gen/inflow/thirdparty/v2/settlement_pb.ts'
import type { TimeText } from '../../core/clock.ts'
import { CURRENCY, toMajorNumber } from '../../core/money.ts'
import type { EntryPage } from '../../settlement/list-entries.ts'
import { isSettlement } from '../../settlement/message.ts'
import { netOf, type Settlement } from '../../settlement/settlement.ts'

export function toSettlement(settlement: Settlement, timeText: TimeText): SettlementMessage {
  const { grossMinor, feesMinor, splitsMinor, completedAtMs } = settlement
  return create(SettlementSchema, {
    settlementId: settlement.id,
    status: settlement.status,
    transactionCount: Number(settlement.transactionCount),
    grossAmount: toMajorNumber(grossMinor),
    fees: toMajorNumber(feesMinor),
    splits: toMajorNumber(splitsMinor),
    netAmount: toMajorNumber(netOf(settlement)),
    currency: CURRENCY,
    cutOffAt: timeText.format(settlement.cutOffAtMs),
    startedAt: timeText.format(settlement.startedAtMs),
    ...(completedAtMs !== undefined && { completedAt: timeText.format(completedAtMs) }),
  })
}

export function toStatementEntry(
  entry: EntryPage['entries'][number],
  timeText: TimeText,
): StatementEntry {
  const { kind, subjectId, sessionId } = entry
  return create(StatementEntrySchema, {
    sequence: Number(entry.sequence),
    event: kind,
    bookedAt: timeText.format(entry.bookedAtMs),
    ...(isSettlement(kind) && { settlementId: subjectId }),
    ...(sessionId !== '' && { sessionId }),
    pending: toMajorNumber(entry.pendingMinor),
    available: toMajorNumber(entry.availableMinor),
    fees: toMajorNumber(entry.feesMinor),
  })
}
