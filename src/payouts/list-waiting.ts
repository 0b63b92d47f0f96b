import type { BusinessScope } from '../auth/caller.ts'
import { MINUTE_MS } from '../core/durations.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Payout } from './payout.ts'
import { PAYOUT_COLUMNS, type PayoutRow, toPayout } from './store.ts'

/** How long a bank may leave a payout without a result before it is shown to operators. */
export const UNKNOWN_MS_MAX = 15 * MINUTE_MS

/**
 * Lists payouts that await approval, the oldest first. Each list of this file has an index of its own.
 *
 * @param after the last id of the previous page; empty at the beginning
 */
export async function listAwaitingApproval(
  on: Queryable,
  { businessIds, live }: BusinessScope,
  after: string,
  limit: number,
): Promise<readonly Payout[]> {
  const { rows } = await on.query<PayoutRow>(
    `select ${PAYOUT_COLUMNS} from payout
      where status = 'PENDING_APPROVAL' and id > $1 and ($2::text[] is null or business_id = any($2))
        and ($3::boolean is null or live = $3)
      order by id limit $4`,
    [after, businessIds ?? null, live ?? null, limit],
  )
  return rows.map(toPayout)
}

/** Counts payouts that await approval, up to `max`. */
export async function countAwaitingApproval(
  on: Queryable,
  { businessIds, live }: BusinessScope,
  max: number,
): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (
        select from payout
        where status = 'PENDING_APPROVAL' and ($1::text[] is null or business_id = any($1))
          and ($2::boolean is null or live = $2)
        limit $3
      ) waiting`,
    [businessIds ?? null, live ?? null, max],
  )
  return rows[0]?.count ?? 0
}

/** Lists payouts in manual review, and payouts whose result the bank has not stated for 15 minutes. */
export async function listUnclear(
  on: Queryable,
  { businessIds, live }: BusinessScope,
  after: string,
  limit: number,
  nowMs: number,
): Promise<readonly Payout[]> {
  const { rows } = await on.query<PayoutRow>(
    `select ${PAYOUT_COLUMNS} from payout
      where status in ('UNKNOWN', 'MANUAL_REVIEW') and (status = 'MANUAL_REVIEW' or submitted_at <= $5)
        and id > $1 and ($2::text[] is null or business_id = any($2)) and ($3::boolean is null or live = $3)
      order by id limit $4`,
    [after, businessIds ?? null, live ?? null, limit, new Date(nowMs - UNKNOWN_MS_MAX)],
  )
  return rows.map(toPayout)
}

/** Counts the payouts that `listUnclear` lists, up to `max`. */
export async function countUnclear(
  on: Queryable,
  { businessIds, live }: BusinessScope,
  max: number,
  nowMs: number,
): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (
        select from payout
        where status in ('UNKNOWN', 'MANUAL_REVIEW') and (status = 'MANUAL_REVIEW' or submitted_at <= $4)
          and ($1::text[] is null or business_id = any($1)) and ($2::boolean is null or live = $2)
        limit $3
      ) waiting`,
    [businessIds ?? null, live ?? null, max, new Date(nowMs - UNKNOWN_MS_MAX)],
  )
  return rows[0]?.count ?? 0
}
