import { getBusiness } from '../../businesses/get-business.ts'
import type { Clock } from '../../core/clock.ts'
import type { Database } from '../../postgres/orm.ts'
import type { BalanceKey } from '../settlement.ts'
import { readCalendar } from '../terms/calendar.ts'
import { type Preview, readPreview } from './due-store.ts'

/** The totals that settling a business now would produce. Times in epoch milliseconds. */
interface SettlementPreview extends Preview {
  readonly cutOffAtMs: number
  /** When the oldest unsettled payment is due; undefined if there is none. */
  readonly nextSettlementAtMs: number | undefined
}

/** @throws Fault not_found if the business does not exist */
export async function previewSettlement(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  request: BalanceKey & { readonly force: boolean },
): Promise<SettlementPreview> {
  const { businessId, live, force } = request
  await getBusiness(database, businessId)
  const { terms, calendar } = await readCalendar(database.pool, businessId)
  const nowMs = clock.now()
  const cutOffAtMs = force ? nowMs : calendar.cutOffAt(nowMs)
  const preview = await readPreview(
    database.pool,
    { businessId, live },
    terms,
    force ? undefined : cutOffAtMs,
  )
  const { oldestRecordedAtMs: oldestMs } = preview
  const nextSettlementAtMs = oldestMs === undefined ? undefined : calendar.settlesAt(oldestMs)
  return { ...preview, cutOffAtMs, nextSettlementAtMs }
}
