import type { Pool } from 'pg'

/** SQL: the CTE `lock`, whose `held` says whether this transaction got the lock of that name. */
export const tryLock = (name: string) => `lock as materialized (
    select pg_try_advisory_xact_lock(hashtextextended('${name}', 0)) as held
  )`

/**
 * SQL: the last position for which deliveries were created, one row. Read from the end of the
 * index, where nothing was ever deleted, so that it costs the same under a snapshot that has been
 * open for an hour.
 */
export const lastPosition = (condition = 'true') =>
  `select position from webhook_dispatcher where ${condition} order by position desc limit 1`

/** The most rows that one statement deletes, and the most statements of one run. */
const ROWS_MAX = 5_000
const STATEMENTS_MAX = 100

/** Deletes the positions before the last one; nothing while another instance does. */
export async function deleteSupersededPositions(pool: Pool, signal?: AbortSignal): Promise<void> {
  let after: string | null = '-1'
  for (let i = 0; i < STATEMENTS_MAX && after !== null && !signal?.aborted; i++) {
    after = await deletePage(pool, after)
  }
}

/**
 * Continues after the last page: the rows deleted there may be dead and still in the index.
 *
 * @returns the last position deleted; null if none is left
 */
async function deletePage(pool: Pool, after: string): Promise<string | null> {
  const result = await pool.query<{ last: string | null }>({
    name: 'webhook-delete-positions',
    text: `with ${tryLock('webhook dispatcher positions')}, old as (
        select position from webhook_dispatcher
        where (select held from lock) and position > $1 and position < (${lastPosition()})
        order by position limit $2
      ), deleted as (
        delete from webhook_dispatcher where position = any(array(select position from old))
      )
      select max(position) as last from old`,
    values: [after, ROWS_MAX],
  })
  return result.rows[0]?.last ?? null
}
