import type { Pool } from 'pg'
import { MONEY_EVENTS, newestBalances } from '../../events/balance-changes/balance-changes.sql.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import { IS_UNSETTLED, joinTransaction } from '../../transactions/transaction.sql.ts'
import type { BalanceKey } from '../settlement.ts'
import type { Fee } from '../terms/terms.ts'
import { firstUnsettled } from './first-unsettled.sql.ts'

/** A balance with unsettled payments. */
export interface UnsettledBalance extends BalanceKey {
  /** When its oldest unsettled payment was recorded. */
  readonly oldestRecordedAtMs: number
}

interface Row {
  business_id: string
  live: boolean
  recorded_at_ms: number | null
}

/** The first unsettled payment of a business after the end of its last settlement. */
const FIRST_UNSETTLED = `select ${epochMs('e.occurred_at')} as recorded_at_ms
  from ${firstUnsettled(
    'c.business_id',
    'c.live',
    `coalesce((select to_sequence from settlement s
      where s.business_id = c.business_id and s.live = c.live
      order by to_sequence desc limit 1), -(2::numeric ^ 62)::bigint)`,
  )} e`

/**
 * One page of the balances with unsettled payments, ordered by business and mode.
 *
 * @param after the last balance of the previous page
 * @returns `last`: where the next page starts; undefined on the last page
 */
export async function listUnsettled(
  pool: Pool,
  after: BalanceKey,
  limit: number,
): Promise<{
  readonly unsettled: readonly UnsettledBalance[]
  readonly last: BalanceKey | undefined
}> {
  const { rows } = await pool.query<Row>({
    name: 'settlement-unsettled',
    text: `select c.business_id, c.live, u.recorded_at_ms
      from (
        select business_id, live from (${newestBalances('$1', '$3::boolean')}) balance
        where pending_minor > 0 limit $2
      ) c
      left join lateral (${FIRST_UNSETTLED}) u on true
      order by c.business_id, c.live`,
    values: [after.businessId, limit, after.live],
  })
  const unsettled = rows.flatMap((row) => {
    // The pending money may all belong to a running settlement.
    if (row.recorded_at_ms === null) return []
    return { ...toBalanceKey(row), oldestRecordedAtMs: row.recorded_at_ms }
  })
  const last = rows.length < limit ? undefined : rows.at(-1)
  return { unsettled, last: last && toBalanceKey(last) }
}

function toBalanceKey(row: Row): BalanceKey {
  return { businessId: row.business_id, live: row.live }
}

/** The totals that settling a business would produce. Times in epoch milliseconds. */
export interface Preview {
  readonly transactionCount: bigint
  readonly grossMinor: bigint
  readonly feesMinor: bigint
  /** When the oldest unsettled payment was recorded. */
  readonly oldestRecordedAtMs: number | undefined
}

/** @param cutOffAtMs only payments recorded before this time; undefined: all */
export async function readPreview(
  pool: Pool,
  { businessId, live }: BalanceKey,
  terms: Fee,
  cutOffAtMs: number | undefined,
): Promise<Preview> {
  const { rows } = await pool.query<{
    count: string
    gross: string
    fees: string
    recorded_at_ms: number | null
  }>(
    `select count(*) filter (where due) as count,
        coalesce(sum(amount_minor) filter (where due), 0) as gross,
        coalesce(sum(settlement_fee(amount_minor, $2, $3, $4)) filter (where due), 0) as fees,
        ${epochMs('min(occurred_at)')} as recorded_at_ms
      from (
        select t.amount_minor, e.occurred_at, $5::timestamptz is null or e.occurred_at < $5 as due
        from ${MONEY_EVENTS} ${joinTransaction('e.subject_id')}
        where e.business_id = $1 and e.live = $6 and e.kind = 'PAYMENT_NOTIFICATION'
          and e.business_sequence > coalesce((
            select scanned_sequence from settlement s where s.business_id = $1 and s.live = $6
            order by to_sequence desc limit 1), -(2::numeric ^ 62)::bigint)
          and ${IS_UNSETTLED}
      ) unsettled`,
    [
      businessId,
      terms.feeFlatMinor,
      terms.feeBasisPoints,
      terms.feeCapMinor,
      cutOffAtMs === undefined ? null : new Date(cutOffAtMs),
      live,
    ],
  )
  const row = rows[0]
  if (row === undefined) throw new Error('an aggregate query must return a row')
  return {
    transactionCount: BigInt(row.count),
    grossMinor: BigInt(row.gross),
    feesMinor: BigInt(row.fees),
    oldestRecordedAtMs: row.recorded_at_ms ?? undefined,
  }
}
