import type { Pool } from 'pg'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Book } from '../settlement.ts'
import { firstWaiting } from '../statements/money-events.ts'
import { type TermsRow, toTerms } from '../terms/store.ts'
import { DEFAULT_TERMS, type Terms } from '../terms/terms.ts'

/** A business and mode with money that is not settled. */
export interface Waiting extends Book {
  readonly terms: Terms
  /** When its first payment was recorded that waits for settlement. */
  readonly recordedAtMs: number
}

type Row = { business_id: string; live: boolean; recorded_at_ms: number | null } & {
  [Column in keyof TermsRow]: TermsRow[Column] | null
}

/** The first payment of a business that waits for settlement, after where its last one ended. */
const FIRST_WAITING = `select ${epochMs('e.occurred_at')} as recorded_at_ms
  from ${firstWaiting(
    'c.business_id',
    'c.live',
    `coalesce((select to_sequence from settlement s
      where s.business_id = c.business_id and s.live = c.live
      order by to_sequence desc limit 1), -(2::numeric ^ 62)::bigint)`,
  )} e`

/**
 * Businesses and modes with money that is not settled, in their order.
 *
 * @param after the last one of the part before
 * @returns and the one to go on after; undefined when there are no more
 */
export async function listWaiting(
  pool: Pool,
  after: Book,
  limit: number,
): Promise<{ readonly waiting: readonly Waiting[]; readonly last: Book | undefined }> {
  const { rows } = await pool.query<Row>({
    name: 'settlement-waiting',
    text: `select c.business_id, c.live, w.recorded_at_ms, m.schedule, m.working_days, m.cut_off_minutes,
        m.fee_flat_minor, m.fee_basis_points, m.fee_cap_minor
      from (
        select business_id, live from event_business_counter
        where pending_minor > 0 and (business_id, live) > ($1, $3::boolean)
        order by business_id, live limit $2
      ) c
      left join settlement_terms m using (business_id)
      left join lateral (${FIRST_WAITING}) w on true
      order by c.business_id, c.live`,
    values: [after.businessId, limit, after.live],
  })
  const waiting = rows.flatMap((row) => {
    // What is pending may be in a settlement that runs.
    if (row.recorded_at_ms === null) return []
    const terms = row.schedule === null ? DEFAULT_TERMS : toTerms(row as TermsRow)
    return { ...toBook(row), terms, recordedAtMs: row.recorded_at_ms }
  })
  const last = rows.length < limit ? undefined : rows.at(-1)
  return { waiting, last: last && toBook(last) }
}

function toBook(row: Row): Book {
  return { businessId: row.business_id, live: row.live }
}

/** What settling a business would come to. Times in epoch milliseconds. */
export interface Preview {
  readonly transactionCount: bigint
  readonly grossMinor: bigint
  readonly feesMinor: bigint
  /** When the first payment was recorded that waits for settlement. */
  readonly recordedAtMs: number | undefined
}

/** @param cutOffAtMs what was recorded before; undefined: everything */
export async function previewOf(
  pool: Pool,
  { businessId, live }: Book,
  terms: Terms,
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
        from money_event e join transaction t on t.id = e.subject_id
        where e.business_id = $1 and e.live = $6 and e.kind = 'PAYMENT_NOTIFICATION'
          and e.business_sequence > coalesce((
            select scanned_sequence from settlement s where s.business_id = $1 and s.live = $6
            order by to_sequence desc limit 1), -(2::numeric ^ 62)::bigint)
          and t.status = 'SUCCESS' and t.settled_at is null
      ) waiting`,
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
  if (row === undefined) throw new Error('an aggregate always has a row')
  return {
    transactionCount: BigInt(row.count),
    grossMinor: BigInt(row.gross),
    feesMinor: BigInt(row.fees),
    recordedAtMs: row.recorded_at_ms ?? undefined,
  }
}
