import type { Pool } from 'pg'
import type { BalanceKey } from '../settlement.ts'

/** How long an instance has a balance to itself; a crash delays its settlement by this. */
const LEASE_MS = 30_000

/** The wait after a failure, which doubles with each further one. */
const BACKOFF_MIN_MS = 5_000
const BACKOFF_MAX_MS = 600_000

/** How many balances an instance claims together. */
const CLAIMS_MAX = 20

/**
 * Takes the balances that have been due for longest, and moves them out of the way of other instances. A
 * claim is no lock: that of the balance keeps settlements apart.
 */
export async function claimDue(pool: Pool, nowMs: number): Promise<BalanceKey[]> {
  // Not prepared: a plan that was made while the index was empty would scan it.
  const { rows } = await pool.query<{ business_id: string; live: boolean }>(
    `with due as (
        select business_id, live from settlement_due where next_at <= $1
        order by next_at limit ${CLAIMS_MAX} for update skip locked
      )
      update settlement_due d set next_at = $2 from due
      where d.business_id = due.business_id and d.live = due.live
      returning d.business_id, d.live`,
    [new Date(nowMs), new Date(nowMs + LEASE_MS)],
  )
  return rows.map(({ business_id, live }) => ({ businessId: business_id, live }))
}

/** Postpones a balance that could not be settled, also one that is not in the index. */
export async function postponeDue(
  pool: Pool,
  { businessId, live }: BalanceKey,
  nowMs: number,
): Promise<void> {
  await pool.query(
    `insert into settlement_due as d (business_id, live, due_at, next_at, failures)
      values ($1, $2, $3, $3::timestamptz + $4 * interval '1 ms', 1)
      on conflict (business_id, live) do update set failures = d.failures + 1,
        next_at = $3::timestamptz + least($4 * 2 ^ least(d.failures, 30), $5) * interval '1 ms'`,
    [businessId, live, new Date(nowMs), BACKOFF_MIN_MS, BACKOFF_MAX_MS],
  )
}
