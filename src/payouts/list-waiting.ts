import { MINUTE_MS } from '../core/durations.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Payout } from './payout.ts'
import { PAYOUT_COLUMNS, type PayoutRow, toPayout } from './store.ts'

/**
 * What payouts wait for: the approval of a second person, or a decision about one whose result is not known. Each list
 * has an index of its own, and begins with the oldest.
 */
interface Waiting {
  /** Undefined: all. */
  readonly businessIds: readonly string[] | undefined
  /** Undefined: both modes. */
  readonly live: boolean | undefined
}

/** For how long a bank may not state the result of a payout before operators look at it. */
export const UNKNOWN_MS_MAX = 15 * MINUTE_MS

/** Payouts that await an approval. @param after the last one of the page before; empty at the beginning */
export async function listAwaitingApproval(
  on: Queryable,
  { businessIds, live }: Waiting,
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

/** How many await an approval, up to a bound. */
export async function countAwaitingApproval(
  on: Queryable,
  { businessIds, live }: Waiting,
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

/** Payouts in manual review, and those whose result the bank has not stated for 15 minutes. */
export async function listUnclear(
  on: Queryable,
  { businessIds, live }: Waiting,
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

/** How many of these there are, up to a bound. */
export async function countUnclear(
  on: Queryable,
  { businessIds, live }: Waiting,
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
