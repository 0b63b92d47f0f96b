import type { ServiceImpl } from '@connectrpc/connect'
import type { ThirdPartyService } from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { callingBusiness } from '../../auth/caller.ts'
import type { TimeText } from '../../core/clock.ts'
import type { Database } from '../../postgres/orm.ts'
import { listEntries } from '../../settlement/list-entries.ts'
import { listSettlements } from '../../settlement/runs/list-settlements.ts'
import { toBalance, toPageToken } from '../message.ts'
import { readTimes } from '../read-times.ts'
import { toSettlement, toStatementEntry } from './message.ts'

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
