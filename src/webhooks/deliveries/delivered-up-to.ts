import type { Pool } from 'pg'

/**
 * The last position before which no delivery is left to be made. What is pending is a fraction of
 * all deliveries and has an index of its own; reading it first keeps the planner from looking for
 * the least position among those of all time. What is pending of an endpoint that is disabled ends
 * by retention, so that nothing holds the log up for ever.
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
