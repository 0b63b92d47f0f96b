import type { Pool } from 'pg'

/**
 * The last position up to which no delivery is pending. Pending deliveries are a fraction of all
 * and have their own index; reading them first keeps the planner from searching all deliveries for
 * the lowest position. Retention ends the pending deliveries of a disabled endpoint, so they cannot
 * block the deletion of old events for ever.
 */
export async function deliveredUpTo(pool: Pool): Promise<bigint> {
  const result = await pool.query<{ position: string }>({
    name: 'webhook-delivered-up-to',
    text: `with pending as materialized (
        select endpoint_id, min(position) as position from webhook_delivery
        where state = 'PENDING' group by endpoint_id
      )
      select coalesce(
        (select min(p.position) - 1 from pending p
          join webhook_endpoint e on e.id = p.endpoint_id and e.deleted_at is null),
        (select position from webhook_dispatcher where id = 1)) as position`,
  })
  return BigInt(result.rows[0]?.position ?? 0)
}
