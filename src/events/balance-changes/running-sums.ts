import type { PoolClient } from 'pg'

/** Identifies a balance. */
interface BalanceKey {
  readonly businessId: string
  readonly live: boolean
}

/**
 * The balances that have events, and whether the running sums of each equal the sums of its
 * sequenced events.
 */
export async function listRunningSums(
  client: PoolClient,
  after: BalanceKey,
  limit: number,
): Promise<(BalanceKey & { readonly isConsistent: boolean })[]> {
  const { rows } = await client.query<{
    business_id: string
    live: boolean
    is_consistent: boolean
  }>(
    `select c.business_id, c.live, (c.pending_minor, c.available_minor, c.fees_minor) = (
        select coalesce(sum(e.pending_minor), 0), coalesce(sum(e.available_minor), 0),
          coalesce(sum(e.fees_minor), 0)
        from money_event e where e.business_id = c.business_id and e.live = c.live) as is_consistent
      from event_business_counter c where (c.business_id, c.live) > ($1, $3::boolean)
      order by c.business_id, c.live limit $2`,
    [after.businessId, limit, after.live],
  )
  return rows.map((row) => ({
    businessId: row.business_id,
    live: row.live,
    isConsistent: row.is_consistent,
  }))
}
