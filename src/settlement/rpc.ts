import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import type { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { actorOf, restrictionOf } from '../auth/caller.ts'
import { assert } from '../core/errors.ts'
import { CURRENCY } from '../core/money.ts'
import { fromTimestamp, isLive, toOptionalTimestamp } from '../protobuf/values.ts'
import { addHoliday, getTerms, listHolidays, removeHoliday, updateTerms } from './change-terms.ts'
import { getBalance, listSettlements } from './get-balance.ts'
import { getSettlementCalendar } from './get-calendar.ts'
import { listEntries } from './list-entries.ts'
import {
  toBalanceMessage,
  toDayMessage,
  toEntryMessage,
  toSettlementMessage,
  toTerms,
  toTermsMessage,
  toTotals,
} from './message.ts'
import type { SettlementContext } from './runs/run-settlement.ts'
import { previewSettlement, settle } from './runs/settle.ts'
import type { FindSettlementPayouts } from './settlement.ts'
import type { VerifyPayouts } from './verify-balance.ts'
import { verifyLedger } from './verify-ledger.ts'

/** The functions that this domain needs from the payouts domain, which depends on this one. */
export interface PayoutsOfSettlements {
  readonly verifyPayouts: VerifyPayouts
  readonly findPayouts: FindSettlementPayouts
}

export function createSettlementRpc(
  dependencies: SettlementContext,
  { verifyPayouts, findPayouts }: PayoutsOfSettlements,
): ServiceImpl<typeof SettlementService> {
  const { database } = dependencies
  return {
    async settle(request, context) {
      const { businessId, requestId, force } = request
      const input = { businessId, live: isLive(request), requestId, force }
      const result = await settle(dependencies, input, {
        signal: context.signal,
        actor: actorOf(context),
      })
      return { ...result, settlements: result.settlements.map((each) => toSettlementMessage(each)) }
    },
    async previewSettlement(request, { signal }) {
      const { businessId, force } = request
      const key = { businessId, live: isLive(request) }
      // Wait as `settle` does, so that the preview includes a payment that was just acknowledged.
      await dependencies.awaitNumbers(key, signal)
      const preview = await previewSettlement(dependencies, { ...key, force })
      return {
        transactionCount: preview.transactionCount,
        ...toTotals(preview),
        currency: CURRENCY,
        cutOffAt: timestampFromMs(preview.cutOffAtMs),
        nextSettlementAt: toOptionalTimestamp(preview.nextSettlementAtMs),
      }
    },
    async listSettlements({ from, to, ...list }, { values }) {
      const { businessId, live, settlementId, pageSize, pageToken } = list
      const period = { fromMs: from && fromTimestamp(from), toMs: to && fromTimestamp(to) }
      const request = { businessId, live, settlementId, pageSize, pageToken, ...period }
      return database.read(async (on) => {
        const { rows, nextPageToken } = await listSettlements(on, request, restrictionOf(values))
        const ids = rows.map(({ id }) => id)
        const payouts = await findPayouts(on, ids)
        const settlements = rows.map((row) => toSettlementMessage(row, payouts.get(row.id)))
        return { settlements, nextPageToken }
      })
    },
    async getSettlementCalendar(message, { values }) {
      const { businessId, month } = message
      const request = { businessId, month, live: isLive(message), allowed: restrictionOf(values) }
      const { days, settledFromMs, isDueCut } = await getSettlementCalendar(dependencies, request)
      return {
        days: days.map(toDayMessage),
        settlementsFrom: toOptionalTimestamp(settledFromMs),
        dueIncomplete: isDueCut,
        currency: CURRENCY,
      }
    },
    async getBalance(request) {
      const key = { businessId: request.businessId, live: isLive(request) }
      const { reservedMinor, ...balance } = await getBalance(database, key)
      return { balance: toBalanceMessage(balance, reservedMinor) }
    },
    async listEntries(request) {
      const { businessId, settlementId, pageSize, pageToken } = request
      const page = await listEntries(database, {
        businessId,
        settlementId,
        live: isLive(request),
        pageSize,
        pageToken,
        fromMs: request.from && fromTimestamp(request.from),
        toMs: request.to && fromTimestamp(request.to),
      })
      return {
        entries: page.entries.map(toEntryMessage),
        nextPageToken: page.nextPageToken,
        openingBalance: toBalanceMessage(page.opening),
        closingBalance: toBalanceMessage(page.closing),
      }
    },
    async getSettlementTerms({ businessId }) {
      return { terms: toTermsMessage(await getTerms(database, businessId)) }
    },
    async updateSettlementTerms({ businessId, terms }, context) {
      assert(terms, 'validation requires terms')
      const updated = await updateTerms(dependencies, businessId, toTerms(terms), actorOf(context))
      return { terms: toTermsMessage(updated) }
    },
    async addHoliday({ day, name }, context) {
      return { holiday: await addHoliday(database.orm, { day, name }, actorOf(context)) }
    },
    async removeHoliday({ day }, context) {
      await removeHoliday(database.orm, day, actorOf(context))
      return {}
    },
    async listHolidays({ pageSize, pageToken }) {
      const { rows, nextPageToken } = await listHolidays(database.orm, pageSize, pageToken)
      return { holidays: [...rows], nextPageToken }
    },
    async *verifyLedger({ from }) {
      for await (const progress of verifyLedger(database.durablePool, verifyPayouts, from)) {
        yield {
          transactions: BigInt(progress.transactions),
          postings: BigInt(progress.postings),
          discrepancies: [...progress.discrepancies],
          discrepancyCount: BigInt(progress.discrepancyCount),
          completed: progress.completed,
          estimatedTransactions: BigInt(progress.estimatedTransactions),
          cursor: progress.cursor,
        }
      }
    },
  }
}
