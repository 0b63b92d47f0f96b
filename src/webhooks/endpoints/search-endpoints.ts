import type { Pool } from 'pg'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { StoredDelivery } from '../deliveries/delivery.ts'
import { findDelivery } from '../deliveries/read-deliveries.ts'
import type { DisabledReason } from './endpoint.ts'

/** An endpoint, as a search shows it. */
export interface FoundEndpoint {
  readonly id: string
  readonly businessId: string
  readonly live: boolean
  readonly url: string
  readonly createdAtMs: number
  readonly disabledReason: DisabledReason | null
}

/** An endpoint that is not deleted. */
export async function findEndpoint(pool: Pool, id: string): Promise<FoundEndpoint | undefined> {
  const { rows } = await pool.query<FoundEndpoint>({
    name: 'webhook-endpoint-find',
    text: `select id, business_id as "businessId", live, url,
        ${epochMs('created_at')} as "createdAtMs", disabled_reason as "disabledReason"
      from webhook_endpoint where id = $1 and deleted_at is null`,
    values: [id],
  })
  return rows[0]
}

/** A delivery with its endpoint, which is not deleted. */
export async function findDeliveryWithEndpoint(
  pool: Pool,
  id: string,
): Promise<{ readonly delivery: StoredDelivery; readonly endpoint: FoundEndpoint } | undefined> {
  const delivery = await findDelivery(pool, id)
  const endpoint = delivery && (await findEndpoint(pool, delivery.endpointId))
  return delivery && endpoint && { delivery, endpoint }
}
