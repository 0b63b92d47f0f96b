import type { Queryable } from '../../postgres/in-transaction.ts'
import { cutPage, readPage } from '../../postgres/page-token.ts'
import { listSettlementsBy } from './store.ts'

/** One page of settlements, newest first. @throws Fault validation_failed (the page token) */
export async function listSettlements(
  pool: Queryable,
  request: {
    /** Empty: all businesses. */
    readonly businessId: string
    readonly live: boolean | undefined
    readonly pageSize: number
    readonly pageToken: string
  },
  restriction: ReadonlySet<string> | undefined,
) {
  const page = readPage(request.pageSize, request.pageToken, 1)
  const { live } = request
  const filter = { businessId: request.businessId || undefined, live, restriction }
  const found = await listSettlementsBy(pool, filter, page.after?.[0], page.limit + 1)
  return cutPage(found, page, (settlement) => [settlement.id])
}
