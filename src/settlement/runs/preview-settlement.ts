import type { Pool } from 'pg'
import { getBusiness } from '../../businesses/get-business.ts'
import type { Clock } from '../../core/clock.ts'
import type { Database } from '../../postgres/orm.ts'
import type { BalanceKey } from '../settlement.ts'
import type { Fee } from '../terms.ts'
import { readCalendar } from '../terms.ts'

/** The totals that settling a business now would produce. Times in epoch milliseconds. */
interface SettlementPreview extends Preview {
  readonly cutOffAtMs: number
  /** When the oldest unsettled payment is due; undefined if there is none. */
  readonly nextSettlementAtMs: number | undefined
}

/** @throws Fault not_found if the business does not exist */
export async function previewSettlement(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  request: BalanceKey & { readonly force: boolean },
): Promise<SettlementPreview> {
  const { businessId, live, force } = request
  await getBusiness(database, businessId)
  const { terms, calendar } = await readCalendar(database.durablePool, businessId)
  const nowMs = clock.now()
  const cutOffAtMs = force ? nowMs : calendar.cutOffAt(nowMs)
  const preview = await readPreview(
    database.durablePool,
    { businessId, live },
    terms,
    force ? undefined : cutOffAtMs,
  )
  const { oldestRecordedAtMs: oldestMs } = preview
  const nextSettlementAtMs = oldestMs === undefined ? undefined : calendar.settlesAt(oldestMs)
  return { ...preview, cutOffAtMs, nextSettlementAtMs }
}

/** The totals that settling a business would produce. Times in epoch milliseconds. */
interface Preview {
  readonly transactionCount: bigint
  readonly grossMinor: bigint
  readonly feesMinor: bigint
  readonly splitsMinor: bigint
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
    splits: string
    recorded_at_ms: number | null
  }>(
    `select count(*) filter (where due) as count,
        coalesce(sum(amount_minor) filter (where due), 0) as gross,
        coalesce(sum(fee_minor) filter (where due), 0) as fees,
        coalesce(sum(split_minor) filter (where due), 0) as splits,
        round(date_part('epoch', min(occurred_at)) * 1000) as recorded_at_ms
      from (
        select rest.amount_minor, f.fee_minor, x.split_minor, e.occurred_at,
          $5::timestamptz is null or e.occurred_at < $5 as due
        from money_event e join transaction t on t.id = e.subject_id
          left join lateral refunded_pending(t.id) r (minor) on true
          cross join lateral (select t.amount_minor - coalesce(r.minor, 0)) rest (amount_minor)
          cross join lateral (select settlement_fee(rest.amount_minor, $2, $3, $4) as fee_minor) f
          cross join lateral (select sum(share_minor) as split_minor
            from split_shares(t.account_id, t.created_at, rest.amount_minor, f.fee_minor)) x
        where e.business_id = $1 and e.live = $6 and e.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
          and e.business_sequence > coalesce((
            select scanned_sequence from settlement s where s.business_id = $1 and s.live = $6
            order by to_sequence desc limit 1), -(2::numeric ^ 62)::bigint)
          and t.status = 'SUCCESS' and not exists (select from ledger_posting s
            where s.transaction_id = t.id and s.kind = 'settlement' offset 0)
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
    splitsMinor: BigInt(row.splits),
    oldestRecordedAtMs: row.recorded_at_ms ?? undefined,
  }
}
