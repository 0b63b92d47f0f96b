import type { Queryable } from '../../postgres/in-transaction.ts'
import { cutPage, readPage } from '../../postgres/page-token.ts'
import type { Settlement } from '../settlement.ts'
import { listSettlementsBy, SETTLEMENT_COLUMNS, type SettlementRow, toSettlement } from './store.ts'

/** One page of settlements, newest first. @throws Fault validation_failed (the page token) */
export async function listSettlements(
  pool: Queryable,
  request: {
    /** Empty: all businesses. */
    readonly businessId: string
    readonly live: boolean | undefined
    /** When they started; epoch milliseconds. */
    readonly fromMs?: number | undefined
    readonly toMs?: number | undefined
    /** Empty: any. */
    readonly settlementId?: string
    readonly pageSize: number
    readonly pageToken: string
  },
  restriction: ReadonlySet<string> | undefined,
) {
  const page = readPage(request.pageSize, request.pageToken, 1)
  const { businessId, live, fromMs, toMs, settlementId } = request
  const filter = {
    live,
    fromMs,
    toMs,
    restriction,
    businessId: businessId || undefined,
    id: settlementId || undefined,
  }
  const found = await listSettlementsBy(pool, filter, page.after?.[0], page.limit + 1)
  return cutPage(found, page, (settlement) => [settlement.id])
}

export async function findSettlement(on: Queryable, id: string): Promise<Settlement | undefined> {
  const { rows } = await on.query<SettlementRow>(
    `select ${SETTLEMENT_COLUMNS} from settlement where id = $1`,
    [id],
  )
  return rows[0] && toSettlement(rows[0])
}
