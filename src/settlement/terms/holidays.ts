import type { Pool } from 'pg'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault, invalidFields } from '../../core/errors.ts'
import { inTransaction } from '../../postgres/in-transaction.ts'
import { cutPage, invalidPageToken, readPage } from '../../postgres/page-token.ts'

/** A day that is not a working day. */
export interface Holiday {
  /** YYYY-MM-DD */
  readonly day: string
  readonly name: string
}

const DAY = /^20\d\d-\d\d-\d\d$/

/** Adds a holiday, or renames it. @throws Fault validation_failed if the date does not exist */
export async function addHoliday(pool: Pool, holiday: Holiday, actor: Actor): Promise<Holiday> {
  const { day, name } = holiday
  checkDay(day)
  await inTransaction(pool, async (client) => {
    await client.query(
      'insert into holiday (day, name) values ($1, $2) on conflict (day) do update set name = $2',
      [day, name],
    )
    await appendAudit(client, actor, { action: 'holiday.add', targetId: day, details: { name } })
  })
  return holiday
}

/** @throws Fault validation_failed if the date does not exist, not_found if it is not a holiday */
export async function removeHoliday(pool: Pool, day: string, actor: Actor): Promise<void> {
  checkDay(day)
  await inTransaction(pool, async (client) => {
    const { rowCount } = await client.query('delete from holiday where day = $1', [day])
    if (rowCount === 0) throw new Fault('not_found', 'That day is not a holiday')
    await appendAudit(client, actor, { action: 'holiday.remove', targetId: day })
  })
}

/** One page of holidays, in date order. */
export async function listHolidays(pool: Pool, pageSize: number, pageToken: string) {
  const page = readPage(pageSize, pageToken, 1)
  const after = page.after?.[0] ?? '1999-12-31'
  if (page.after !== undefined && !isDay(after)) throw invalidPageToken()
  const result = await pool.query<Holiday>(
    'select day::text as day, name from holiday where day > $1 order by day limit $2',
    [after, page.limit + 1],
  )
  return cutPage(result.rows, page, (holiday) => [holiday.day])
}

function checkDay(day: string): void {
  if (!isDay(day)) throw invalidFields([{ field: 'day', message: 'must be a calendar date' }])
}

/** Rejects dates that do not exist, such as 30 February. */
function isDay(day: string): boolean {
  const at = Date.parse(`${day}T00:00:00Z`)
  return DAY.test(day) && !Number.isNaN(at) && new Date(at).toISOString().startsWith(day)
}
