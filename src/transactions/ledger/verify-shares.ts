import type { PoolClient } from 'pg'
import {
  MONEY_EVENTS,
  SEQUENCER_STATE,
  unnumberedEvents,
} from '../../events/balance-changes.sql.ts'
import { isShare } from './append-postings.ts'
import type { Discrepancy, Scope } from './verify-transactions.ts'

const KINDS = "in ('SHARE_SETTLED', 'SHARE_REVERSED')"

/** How many subjects one call returns. */
const DISCREPANCIES_MAX = 100

interface Row {
  subject_id: string
  kind: string
  stated: string
  posted: string
  count: number
}

/**
 * Compares what a business has of the payments of others with its events: the shares of each settlement, and those of
 * each reversed transaction.
 *
 * @returns also what its postings of shares add to its available balance, in kobo
 */
export async function verifyShares(
  client: PoolClient,
  { businessId, live }: Pick<Scope, 'businessId' | 'live'>,
): Promise<{
  readonly discrepancies: readonly Discrepancy[]
  readonly count: number
  readonly available: bigint
}> {
  const posted = `select coalesce(settlement_id, transaction_id) as subject_id,
      case when settlement_id is null then 'SHARE_REVERSED' else 'SHARE_SETTLED' end as kind,
      sum(case when credit_account = 'available' then amount_minor else -amount_minor end) as minor
    from ledger_posting where business_id = $1 and live = $2 and ${isShare('kind')} group by 1, 2`
  const { rows } = await client.query<Row>(
    `with ${SEQUENCER_STATE}, posted as (${posted}), event as (
        select subject_id, kind, sum(available_minor) as minor from (
          select e.subject_id, e.kind, e.available_minor from ${MONEY_EVENTS}
          where e.business_id = $1 and e.live = $2 and e.kind ${KINDS}
          union all
          select subject_id, kind, available_minor
          from (${unnumberedEvents('o.subject_id, o.kind, o.available_minor', '$1', '$2')}) unnumbered
          where kind ${KINDS}
        ) each group by subject_id, kind
      )
      select subject_id, kind, coalesce(e.minor, 0) as stated, coalesce(p.minor, 0) as posted,
        (count(*) over ())::int as count
      from event e full join posted p using (subject_id, kind)
      where e.minor is distinct from p.minor order by subject_id, kind limit ${DISCREPANCIES_MAX}`,
    [businessId, live],
  )
  const sum = await client.query<{ available: string }>(
    `select coalesce(sum(minor), 0) as available from (${posted}) posted`,
    [businessId, live],
  )
  return {
    discrepancies: rows.map((row) => ({
      subject: row.subject_id,
      problem: `${businessId} has ${row.kind} events of ${row.stated}; its postings add up to ${row.posted}`,
    })),
    count: rows[0]?.count ?? 0,
    available: BigInt(sum.rows[0]?.available ?? 0),
  }
}
