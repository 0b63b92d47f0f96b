import { moneyEvents } from '../../events/balance-changes/balance-changes.sql.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import {
  CREDITS_PAYMENT,
  IS_UNSETTLED,
  lookUpTransaction,
} from '../../transactions/transaction.sql.ts'
import type { BalanceKey } from '../settlement.ts'

/** How many settlements, unsettled payments and due balances a calendar reads at most. */
const SETTLEMENTS_MAX = 100_000
const PAYMENTS_MAX = 50_000
const BALANCES_MAX = 100_000

/** SQL: the day of a time in Lagos, since 1 January 1970; and the seconds since its midnight. */
const lagosDay = (time: string) => `floor((extract(epoch from ${time}) + 3600) / 86400)::int4`
const lagosSeconds = (time: string) => `mod(extract(epoch from ${time}) + 3600, 86400)`

/** What was settled on a day. */
export interface SettledDay {
  /** Since 1 January 1970. */
  readonly day: number
  readonly settlements: bigint
  readonly transactions: bigint
  readonly grossMinor: bigint
  readonly feesMinor: bigint
  readonly splitsMinor: bigint
}

/**
 * Sums the settlements of a period by the day on which they started, the latest ones first.
 *
 * @param ids the ids of the first settlement of the period and of the first one after it
 * @returns `fromMs`: only those that started since then were read; undefined: all of the period
 */
export async function sumSettled(
  on: Queryable,
  {
    live,
    businessIds,
  }: { readonly live: boolean; readonly businessIds: readonly string[] | undefined },
  ids: { readonly first: string; readonly after: string },
): Promise<{ readonly days: readonly SettledDay[]; readonly fromMs: number | undefined }> {
  const rowsMax = Math.ceil(SETTLEMENTS_MAX / (businessIds?.length ?? 1))
  const latest = (cut: string) => {
    const where = `live = ${live} and id >= $1 and id < $2 order by id desc ${cut}`
    if (businessIds === undefined) return `(select * from settlement where ${where})`
    return `(select s.* from unnest($3::text[]) as b(key) cross join lateral (
        select * from settlement where business_id = b.key and ${where}) s)`
  }
  const { rows } = await on.query<Readonly<Record<string, string>> & { from_ms: number | null }>(
    `with edge as materialized (
        select id, started_at from ${latest(`offset ${rowsMax - 1} limit 1`)} e order by id desc limit 1
      )
      select ${lagosDay('started_at')} as day, count(*) as settlements,
        sum(transaction_count) as transactions, sum(gross_minor) as gross, sum(fees_minor) as fees,
        sum(splits_minor) as splits, (select ${epochMs('started_at')} from edge) as from_ms
      from ${latest(`limit ${rowsMax}`)} s where id >= coalesce((select id from edge), '')
      group by 1 order by 1`,
    [ids.first, ids.after, ...(businessIds === undefined ? [] : [businessIds])],
  )
  const days = rows.map((row) => ({
    day: Number(row['day']),
    settlements: BigInt(row['settlements'] ?? 0),
    transactions: BigInt(row['transactions'] ?? 0),
    grossMinor: BigInt(row['gross'] ?? 0),
    feesMinor: BigInt(row['fees'] ?? 0),
    splitsMinor: BigInt(row['splits'] ?? 0),
  }))
  return { days, fromMs: rows[0]?.from_ms ?? undefined }
}

/** Unsettled payments of a balance that are due at the same time. */
interface UnsettledPart {
  /** When the first of them was recorded. */
  readonly recordedAtMs: number
  readonly count: bigint
  readonly grossMinor: bigint
}

/**
 * Sums the oldest unsettled payments of a balance by the day, in parts before and after the cut-off.
 *
 * @returns `isCut`: there are more
 */
export async function sumUnsettled(
  on: Queryable,
  { businessId, live }: BalanceKey,
  cutOffMinutes: number,
): Promise<{ readonly parts: readonly UnsettledPart[]; readonly isCut: boolean }> {
  const unsettled = moneyEvents({
    join: ({ event }) => lookUpTransaction(`${event}.subject_id`),
    where: ({ log, event }) => `${log}.business_id = $1 and ${log}.live = $2
      and ${log}.business_sequence > coalesce((
        select scanned_sequence from settlement s where s.business_id = $1 and s.live = $2
        order by to_sequence desc limit 1), -(2::numeric ^ 62)::bigint)
      and ${event}.kind ${CREDITS_PAYMENT} and ${IS_UNSETTLED}`,
    order: 'asc',
    limit: `${PAYMENTS_MAX + 1}`,
  })
  const { rows } = await on.query<{ at_ms: number; count: string; gross: string }>(
    `select ${epochMs('min(e.occurred_at)')} as at_ms, count(*) as count, sum(e.pending_minor) as gross
      from ${unsettled} e
      group by ${lagosDay('e.occurred_at')}, ${lagosSeconds('e.occurred_at')} >= $3::int4 * 60`,
    [businessId, live, cutOffMinutes],
  )
  const parts = rows.map((row) => ({
    recordedAtMs: row.at_ms,
    count: BigInt(row.count),
    grossMinor: BigInt(row.gross),
  }))
  return { parts, isCut: parts.reduce((sum, { count }) => sum + count, 0n) > PAYMENTS_MAX }
}

/** How many balances have their oldest unsettled payment due on a day. */
interface DueDay {
  readonly day: number
  readonly balances: bigint
}

/** @param beforeMs the end of the period: what is due earlier counts too */
export async function countDue(
  on: Queryable,
  {
    live,
    businessIds,
  }: { readonly live: boolean; readonly businessIds: readonly string[] | undefined },
  beforeMs: number,
): Promise<{ readonly days: readonly DueDay[]; readonly isCut: boolean }> {
  const { rows } = await on.query<{ day: number; balances: string }>(
    `select ${lagosDay('due_at')} as day, count(*) as balances from (
        select due_at from settlement_due
        where live = $1 and due_at < $2 ${businessIds === undefined ? '' : 'and business_id = any ($3::text[])'}
        order by due_at limit ${BALANCES_MAX + 1}
      ) due group by 1`,
    [live, new Date(beforeMs), ...(businessIds === undefined ? [] : [businessIds])],
  )
  const days = rows.map(({ day, balances }) => ({ day, balances: BigInt(balances) }))
  return { days, isCut: days.reduce((sum, { balances }) => sum + balances, 0n) > BALANCES_MAX }
}
