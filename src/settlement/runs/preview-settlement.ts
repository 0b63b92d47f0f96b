import { getBusiness } from '../../businesses/get-business.ts'
import type { Clock } from '../../core/clock.ts'
import type { Database } from '../../postgres/orm.ts'
import type { Book } from '../settlement.ts'
import { readCalendar } from '../terms/terms.ts'
import { type Preview, previewOf } from './due-store.ts'

/** What settling a business now would come to. Times in epoch milliseconds. */
interface SettlementPreview extends Preview {
  readonly cutOffAtMs: number
  /** When the first payment that is not settled is due; undefined when there is none. */
  readonly nextSettlesAtMs: number | undefined
}

/** @throws Fault not_found when there is no such business */
export async function previewSettlement(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  request: Book & { readonly force: boolean },
): Promise<SettlementPreview> {
  const { businessId, live, force } = request
  await getBusiness(database, businessId)
  const { terms, calendar } = await readCalendar(database.pool, businessId)
  const nowMs = clock.now()
  const cutOffAtMs = force ? nowMs : calendar.cutOffAt(nowMs)
  const preview = await previewOf(
    database.pool,
    { businessId, live },
    terms,
    force ? undefined : cutOffAtMs,
  )
  const { recordedAtMs } = preview
  const nextSettlesAtMs = recordedAtMs === undefined ? undefined : calendar.settlesAt(recordedAtMs)
  return { ...preview, cutOffAtMs, nextSettlesAtMs }
}
