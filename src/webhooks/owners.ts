import type { Pool } from 'pg'

/** The business of an endpoint, deleted ones included; undefined if there is no such endpoint. */
export async function endpointOwner(pool: Pool, id: string): Promise<string | undefined> {
  const result = await pool.query<{ business_id: string }>({
    name: 'webhook-endpoint-owner',
    text: 'select business_id from webhook_endpoint where id = $1',
    values: [id],
  })
  return result.rows[0]?.business_id
}

/** The business of a delivery; undefined if there is no such delivery. */
export async function deliveryOwner(pool: Pool, id: string): Promise<string | undefined> {
  const result = await pool.query<{ business_id: string }>({
    name: 'webhook-delivery-owner',
    text: `select e.business_id from webhook_delivery d
      join webhook_endpoint e on e.id = d.endpoint_id where d.id = $1`,
    values: [id],
  })
  return result.rows[0]?.business_id
}
