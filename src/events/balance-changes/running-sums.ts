import type { PoolClient } from 'pg'
import { balanceUpTo, newestBalance } from './balance-changes.sql.ts'

/** Identifies a balance. */
interface BalanceKey {
  readonly businessId: string
  readonly live: boolean
}

/**
 * Whether the running sums of a balance equal the sums of its sequenced events.
 *
 * @param after adds up from the last kept balance at or below this sequence number
 */
export async function hasConsistentSums(
  client: PoolClient,
  { businessId, live }: BalanceKey,
  after: bigint,
): Promise<boolean> {
  const { rows } = await client.query<{ is_consistent: boolean }>(
    `with start as (${balanceUpTo('$1', '$2', '$3')}), part as (
        select pending_minor, available_minor, fees_minor from start
        union all
        select e.pending_minor, e.available_minor, e.fees_minor from money_event e
        where e.business_id = $1 and e.live = $2
          and e.business_sequence > coalesce((select business_sequence from start), -(2::numeric ^ 62)::bigint)
      )
      select (c.pending_minor, c.available_minor, c.fees_minor) = (
        select coalesce(sum(pending_minor), 0), coalesce(sum(available_minor), 0), coalesce(sum(fees_minor), 0)
        from part) as is_consistent
      from (${newestBalance('$1', '$2')}) c`,
    [businessId, live, after],
  )
  return rows[0]?.is_consistent ?? true
}
