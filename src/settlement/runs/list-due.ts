import type { Pool } from 'pg'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { BalanceKey } from '../settlement.ts'
import { readCalendars } from '../terms/calendar.ts'
import type { Calendar } from '../terms/schedule.ts'
import type { Terms } from '../terms/terms.ts'

interface DueBalance extends BalanceKey {
  readonly terms: Terms
  readonly calendar: Calendar
}

/** What a request settles: all balances of a mode that are due at a time. */
interface DueFilter {
  readonly live: boolean
  readonly nowMs: number
  /** Ignores the schedule. */
  readonly forced: boolean
}

/** The place of a balance in a list of what is due. */
interface Place {
  readonly dueAtMs: number | undefined
  readonly businessId: string
}

const PAGE_MAX = 500

/** The balances that a request settles, those that have been due for longest first. */
export async function* listDue(pool: Pool, filter: DueFilter): AsyncGenerator<DueBalance> {
  let after: Place | undefined = { dueAtMs: undefined, businessId: '' }
  while (after !== undefined) {
    const page: readonly Place[] = await listPage(pool, filter, after)
    const calendarOf = await readCalendars(pool, new Set(page.map((each) => each.businessId)))
    for (const { businessId } of page) {
      yield { businessId, live: filter.live, ...calendarOf(businessId) }
    }
    after = page.length < PAGE_MAX ? undefined : page.at(-1)
  }
}

async function listPage(
  pool: Pool,
  { live, nowMs, forced }: DueFilter,
  after: Place,
): Promise<readonly Place[]> {
  const { rows } = await pool.query<{ business_id: string; due_at_ms: number }>(
    `select business_id, ${epochMs('due_at')} as due_at_ms from settlement_due
      where (due_at, business_id, live) > ($1::timestamptz, $2, $3::boolean) and live = $3
        and due_at <= $4::timestamptz
      order by due_at, business_id, live limit $5`,
    [
      after.dueAtMs === undefined ? '-infinity' : new Date(after.dueAtMs),
      after.businessId,
      live,
      forced ? 'infinity' : new Date(nowMs),
      PAGE_MAX,
    ],
  )
  return rows.map((row) => ({ businessId: row.business_id, dueAtMs: row.due_at_ms }))
}
