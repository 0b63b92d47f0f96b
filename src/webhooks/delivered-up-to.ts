import type { Pool } from 'pg'

/** The last position before which no delivery is left to be made. */
export async function deliveredUpTo(pool: Pool): Promise<bigint> {
  const result = await pool.query<{ position: string }>({
    name: 'webhook-delivered-up-to',
    text: `select coalesce(
        (select min(d.position) - 1 from webhook_delivery d
          join webhook_endpoint e on e.id = d.endpoint_id and e.deleted_at is null
          where d.state = 'PENDING'),
        (select position from webhook_dispatcher where id = 1)) as position`,
  })
  return BigInt(result.rows[0]?.position ?? 0)
}
