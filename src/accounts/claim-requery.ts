import type { Pool } from 'pg'
import { assert } from '../core/errors.ts'
import { epochMs } from '../postgres/epoch-ms.ts'

/**
 * Claims the right to ask the bank for the payments of an account: one call at a time gets it, at any
 * instance.
 *
 * @param everyMs how long no other call gets it
 * @returns how long the caller has to wait, in milliseconds; 0: it has the claim
 */
export async function claimRequery(
  pool: Pool,
  accountId: string,
  nowMs: number,
  everyMs: number,
): Promise<number> {
  const { rows } = await pool.query<{ claimed: boolean; before_ms: number | null }>(
    `with claimed as (
        update account set requeried_at = $2
        where id = $1 and (requeried_at is null or requeried_at <= $3)
        returning id
      )
      select exists (select from claimed) as claimed, ${epochMs('requeried_at')} as before_ms
      from account where id = $1`,
    [accountId, new Date(nowMs), new Date(nowMs - everyMs)],
  )
  const [row] = rows
  assert(row, 'an account that was opened is never deleted')
  if (row.claimed) return 0
  // Another call may have begun after this one and claimed before it.
  const sinceMs = Math.max(0, nowMs - (row.before_ms ?? nowMs))
  return Math.max(1, everyMs - sinceMs)
}
