import type { Pool } from 'pg'
import { lastPosition } from '../dispatch/dispatcher-position.ts'

/** The maximum number of due deliveries that are counted. */
const ROWS_COUNTED_MAX = 100_000

/** The deliveries that are overdue. */
export interface Backlog {
  readonly due: number
  /** How long the oldest has been due; 0 if none is. */
  readonly oldestSeconds: number
}

/** Counts those of enabled endpoints only: deliveries to a disabled endpoint are paused. */
export async function readBacklog(pool: Pool): Promise<Backlog> {
  const result = await pool.query<Backlog>(
    `select count(*)::int as due,
        coalesce(extract(epoch from clock_timestamp() - min(due_at)), 0)::float8 as "oldestSeconds"
      from (
        select d.due_at from webhook_endpoint e
        join webhook_delivery d on d.endpoint_id = e.id
        where e.deleted_at is null and e.disabled_at is null
          and d.state = 'PENDING' and d.due_at <= clock_timestamp()
          and (d.leased_until is null or d.leased_until <= clock_timestamp())
        limit $1
      ) due`,
    [ROWS_COUNTED_MAX],
  )
  return result.rows[0] ?? { due: 0, oldestSeconds: 0 }
}

/**
 * The position up to which deliveries exist. Events after it are not deleted, however old they are. Pending
 * deliveries hold back nothing: an event that has expired is not delivered any more.
 */
export async function dispatchedUpTo(pool: Pool): Promise<bigint> {
  const result = await pool.query<{ position: string }>({
    name: 'webhook-dispatched-up-to',
    text: lastPosition(),
  })
  return BigInt(result.rows[0]?.position ?? 0)
}
