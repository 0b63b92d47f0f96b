import type { Pool } from 'pg'
import { dropPartition, isLocked, listPartitions } from '../../postgres/partitions/partitions.ts'

/**
 * Drops the partitions whose deliveries were all created before a time, in whatever state they are,
 * and the partitions of their attempts. Stops at one that others use; a later run drops it.
 *
 * @returns how many partitions of deliveries, and whether it left a partition because others used it
 */
export async function dropDeliveries(
  pool: Pool,
  beforeMs: number,
): Promise<{ dropped: number; inUse: boolean }> {
  let dropped = 0
  try {
    for (const { name, lower, upper } of await listPartitions(pool, 'webhook_delivery')) {
      if (upper === undefined) break
      if ((await newestCreatedAtMs(pool, lower ?? '0', upper)) >= beforeMs) break
      await keepSequences(pool, lower ?? '0', upper)
      if (!(await dropPartition(pool, 'webhook_delivery', name))) break
      dropped++
    }
    for (const { name, upper } of await listPartitions(pool, 'webhook_attempt')) {
      if (upper === undefined || !(await dropPartition(pool, 'webhook_attempt', name))) break
    }
  } catch (error) {
    if (!isLocked(error)) throw error
    return { dropped, inUse: true }
  }
  return { dropped, inUse: false }
}

/** Keeps what the next delivery of an endpoint states as the previous one, before its row is dropped. */
async function keepSequences(pool: Pool, lower: string, upper: string): Promise<void> {
  await pool.query({
    name: 'webhook-keep-sequences',
    text: `update webhook_endpoint e set dropped_sequence = last.sequence
      from webhook_endpoint of_id cross join lateral (
        select sequence from webhook_delivery
        where endpoint_id = of_id.id and position >= $1 and position < $2
        order by position desc limit 1) last
      where e.id = of_id.id and e.dropped_sequence <> last.sequence`,
    values: [lower, upper],
  })
}

/** When the newest delivery of a partition was created; -Infinity if there is none. */
async function newestCreatedAtMs(pool: Pool, lower: string, upper: string): Promise<number> {
  // Ids begin with the time.
  const { rows } = await pool.query<{ created_at: Date }>({
    name: 'webhook-newest-delivery',
    text: `select created_at from webhook_delivery where position >= $1 and position < $2
      order by id desc limit 1`,
    values: [lower, upper],
  })
  return rows[0]?.created_at.getTime() ?? Number.NEGATIVE_INFINITY
}
