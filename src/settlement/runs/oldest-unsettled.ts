import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { BalanceKey } from '../settlement.ts'
import { firstUnsettled } from './first-unsettled.sql.ts'

/** When the oldest unsettled payment of a balance was recorded, in epoch milliseconds; undefined: there is none. */
export async function oldestUnsettledAt(
  on: Queryable,
  { businessId, live }: BalanceKey,
): Promise<number | undefined> {
  // Up to the last settlement, everything is settled.
  const settled = `coalesce((select scanned_sequence from settlement s
    where s.business_id = $1 and s.live = $2 order by to_sequence desc limit 1), -(2::numeric ^ 62)::bigint)`
  const { rows } = await on.query<{ atMs: number }>(
    `select ${epochMs('first.occurred_at')} as "atMs"
      from ${firstUnsettled('$1', '$2', settled)} first`,
    [businessId, live],
  )
  return rows[0]?.atMs
}
