import type { Pool } from 'pg'
import { lastPosition } from '../dispatch/dispatcher-position.ts'

/** The largest bigint of PostgreSQL. */
const POSITION_MAX = 2n ** 63n - 1n

/**
 * @param maxAgeMs how long the result is kept. A redelivery may wait that long if it is before it
 * @returns a function that returns a position before all pending deliveries
 */
export function createPendingFrom(
  pool: Pool,
  maxAgeMs: number,
): (nowMs: number) => Promise<bigint> {
  let position = 0n
  let readAtMs = Number.NEGATIVE_INFINITY
  return async (nowMs) => {
    if (nowMs < readAtMs || nowMs - readAtMs >= maxAgeMs) {
      position = await readPendingFrom(pool)
      readAtMs = nowMs
    }
    return position
  }
}

/**
 * A position before all pending deliveries: the start of the first partition that has any. Most
 * partitions have none, so statements that look for deliveries that are due are bounded by it:
 * otherwise each look-up would open the index of every partition.
 *
 * One look-up for each partition.
 */
async function readPendingFrom(pool: Pool): Promise<bigint> {
  // The order keeps the planner on the index of pending deliveries.
  const result = await pool.query<{ position: string }>({
    name: 'webhook-pending-from',
    text: `select coalesce(
        (select min(p.first) from (
            select coalesce(lower::bigint, 0) as first, coalesce(upper::bigint, $1) as next
            from list_partitions('webhook_delivery')
          ) p cross join lateral (select from webhook_delivery
            where state = 'PENDING' and position >= p.first and position < p.next
            order by endpoint_id, due_at limit 1) any_pending),
        (${lastPosition()})) as position`,
    values: [POSITION_MAX],
  })
  return BigInt(result.rows[0]?.position ?? 0)
}
