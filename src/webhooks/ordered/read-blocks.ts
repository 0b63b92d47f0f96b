import type { Pool } from 'pg'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { OrderBlock } from '../deliveries/delivery.ts'
import { SCANNED_MAX } from './claim-ordered.ts'

/** How many waiting deliveries are counted. */
const WAITING_MAX = 1_000

/** What ordered endpoints wait for, by their ids: the first pending delivery, if an attempt failed. */
export async function readBlocks(
  pool: Pool,
  endpointIds: readonly string[],
): Promise<ReadonlyMap<string, OrderBlock>> {
  if (endpointIds.length === 0) return new Map()
  const { rows } = await pool.query<OrderBlock>({
    name: 'webhook-order-blocks',
    text: `select d.endpoint_id as "endpointId", d.id as "deliveryId", d.attempts,
        coalesce(d.error, '') as error, ${epochMs('coalesce(d.leased_until, d.due_at)')} as "dueAtMs",
        (select count(*)::int from (select from webhook_delivery w
          where w.endpoint_id = d.endpoint_id and w.state = 'PENDING' and w.position > d.position
          limit ${WAITING_MAX}) waiting) as waiting
      from unnest($1::text[]) as a(endpoint_id)
      cross join lateral (select ordered_from from webhook_endpoint
        where id = a.endpoint_id offset 0) e
      cross join lateral (select * from (
          select * from webhook_delivery
          where endpoint_id = a.endpoint_id and position >= e.ordered_from order by position limit ${SCANNED_MAX}
        ) of_endpoint where state = 'PENDING' limit 1) d
      where d.attempts > d.schedule_from and d.error <> ''`,
    values: [endpointIds],
  })
  return new Map(rows.map((row) => [row.endpointId, row]))
}
