import { create } from '@bufbuild/protobuf'
import type { ServiceImpl } from '@connectrpc/connect'
import {
  type Settlement as SettlementMessage,
  SettlementSchema,
  type StatementEntry,
  StatementEntrySchema,
} from '../../gen/inflow/thirdparty/v2/settlement_pb.ts'
import type { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { callingBusiness } from '../auth/caller.ts'
import type { TimeText } from '../core/clock.ts'
import { CURRENCY, toMajorNumber } from '../core/money.ts'
import type { Database } from '../postgres/orm.ts'
import { type EntryPage, listEntries } from '../settlement/list-entries.ts'
import { isSettlement } from '../settlement/message.ts'
import { listSettlements } from '../settlement/runs/list-settlements.ts'
import { netOf, type Settlement } from '../settlement/settlement.ts'
import { readTimes, toBalance, toPageToken } from './message.ts'

interface Dependencies {
  readonly database: Database
  readonly timeText: TimeText
}

type SettlementMethods = Pick<
  ServiceImpl<typeof ThirdPartyService>,
  'listSettlements' | 'getStatement'
>

/** How a business explains its balance. */
export function createSettlementMethods({ database, timeText }: Dependencies): SettlementMethods {
  return {
    async listSettlements({ pageSize, pageToken }, context) {
      const { businessId, live } = callingBusiness(context)
      const list = { businessId, live, pageSize, pageToken }
      const { rows, nextPageToken } = await database.read((on) =>
        listSettlements(on, list, undefined),
      )
      const settlements = rows.map((settlement) => toSettlement(settlement, timeText))
      return {
        status: true,
        message: 'Settlements retrieved',
        data: { settlements, ...toPageToken(nextPageToken) },
      }
    },
    async getStatement({ from, to, pageSize, pageToken }, context) {
      const { businessId, live } = callingBusiness(context)
      const times = readTimes(timeText, { from, to })
      const period = { fromMs: times.from, toMs: times.to }
      const page = await listEntries(database, { businessId, live, ...period, pageSize, pageToken })
      const data = {
        openingBalance: toBalance(page.opening),
        entries: page.entries.map((entry) => toStatementEntry(entry, timeText)),
        closingBalance: toBalance(page.closing),
        ...toPageToken(page.nextPageToken),
      }
      return { status: true, message: 'Statement retrieved', data }
    },
  }
}

function toSettlement(settlement: Settlement, timeText: TimeText): SettlementMessage {
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

function toStatementEntry(entry: EntryPage['entries'][number], timeText: TimeText): StatementEntry {
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
