import { getBusiness } from '../businesses/get-business.ts'
import type { Clock } from '../core/clock.ts'
import { DAY_MS } from '../core/durations.ts'
import { firstIdAt } from '../core/ids.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Database } from '../postgres/orm.ts'
import { isWeekend, lagosDay, startOf } from './schedule.ts'
import type { BalanceKey } from './settlement.ts'
import { listHolidaysOf, readCalendar } from './terms.ts'

interface Request {
  /** Empty: all businesses that the caller may see. */
  readonly businessId: string
  /** The businesses that the caller may see; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
  readonly live: boolean
  /** YYYY-MM */
  readonly month: string
}

/** The balances and payments that are due on a day. */
interface Due {
  readonly balances: bigint
  /** `transactions` and `grossMinor` are 0 if no business is requested. */
  readonly transactions: bigint
  readonly grossMinor: bigint
}

/** A day in Lagos. */
export interface CalendarDay {
  /** YYYY-MM-DD */
  readonly day: string
  readonly isWorkingDay: boolean
  /** Empty if the day is not a holiday. */
  readonly holidayName: string
  readonly settled: SettledDay | undefined
  readonly due: Due
}

interface SettlementCalendar {
  readonly days: readonly CalendarDay[]
  /** Only settlements that started since then count; undefined: all of the month. */
  readonly settledFromMs: number | undefined
  /** Whether not all unsettled payments or due balances were read. */
  readonly isDueCut: boolean
}

const NOTHING: Due = { balances: 0n, transactions: 0n, grossMinor: 0n }

/** A month of settlements, by the day in Lagos. @throws Fault not_found (the business) */
export async function getSettlementCalendar(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  { businessId, allowed, live, month }: Request,
): Promise<SettlementCalendar> {
  if (businessId !== '') await getBusiness(database, businessId)
  const [year = 0, number = 0] = month.split('-').map(Number)
  const first = Date.UTC(year, number - 1) / DAY_MS
  const end = Date.UTC(year, number) / DAY_MS
  const today = lagosDay(clock.now())
  const businessIds = businessId === '' ? allowed && [...allowed] : [businessId]
  const scope = { live, businessIds }
  return database.read(async (on) => {
    const ids = { first: firstIdAt('stl', startOf(first)), after: firstIdAt('stl', startOf(end)) }
    const settled = await sumSettled(on, scope, ids)
    const settledOn = new Map(settled.days.map((each) => [each.day, each]))
    const due =
      businessId === ''
        ? await dueOfAll(on, scope, today, startOf(end))
        : await dueOfBalance(on, { businessId, live }, today)
    const holidays = await listHolidaysOf(on, textOf(first), textOf(end))
    const days = Array.from({ length: end - first }, (_, index): CalendarDay => {
      const day = first + index
      const holidayName = holidays.get(textOf(day)) ?? ''
      return {
        day: textOf(day),
        isWorkingDay: holidayName === '' && !isWeekend(day),
        holidayName,
        settled: settledOn.get(day),
        due: due.days.get(day) ?? NOTHING,
      }
    })
    return { days, settledFromMs: settled.fromMs, isDueCut: due.isCut }
  })
}

/** The businesses and mode whose settlements are read; undefined: all businesses. */
interface Scope {
  readonly live: boolean
  readonly businessIds: readonly string[] | undefined
}

interface DueDays {
  readonly days: ReadonlyMap<number, Due>
  readonly isCut: boolean
}

/** Overdue balances count for today. */
async function dueOfAll(
  on: Queryable,
  scope: Scope,
  today: number,
  beforeMs: number,
): Promise<DueDays> {
  const { days, isCut } = await countDue(on, scope, beforeMs)
  const found = new Map<number, Due>()
  for (const { day, balances } of days) {
    const at = Math.max(day, today)
    found.set(at, { ...NOTHING, balances: balances + (found.get(at)?.balances ?? 0n) })
  }
  return { days: found, isCut }
}

async function dueOfBalance(on: Queryable, key: BalanceKey, today: number): Promise<DueDays> {
  const { terms, calendar } = await readCalendar(on, key.businessId)
  const { parts, isCut } = await sumUnsettled(on, key, terms.cutOffMinutes)
  const found = new Map<number, Due>()
  for (const { recordedAtMs, count, grossMinor } of parts) {
    const day = Math.max(lagosDay(calendar.settlesAt(recordedAtMs)), today)
    const { transactions, grossMinor: sum } = found.get(day) ?? NOTHING
    const due = { balances: 0n, transactions: transactions + count, grossMinor: sum + grossMinor }
    found.set(day, due)
  }
  const oldest = Math.min(...found.keys())
  const due = found.get(oldest)
  if (due !== undefined) found.set(oldest, { ...due, balances: 1n })
  return { days: found, isCut }
}

/** YYYY-MM-DD */
function textOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10)
}

/** The most settlements, unsettled payments and due balances that a calendar reads. */
const SETTLEMENTS_MAX = 100_000

const PAYMENTS_MAX = 50_000

const BALANCES_MAX = 100_000

/** The settlements that started on a day. */
interface SettledDay {
  /** Days since 1 January 1970. */
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
 * @param ids the smallest settlement ids of the period (`first`) and after it (`after`)
 * @returns `fromMs`: only settlements that started since then were read; undefined: all settlements of the period
 */
async function sumSettled(
  on: Queryable,
  { live, businessIds }: Scope,
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
      -- Lagos is an hour ahead of UTC all year.
      select floor((extract(epoch from started_at) + 3600) / 86400)::int4 as day, count(*) as settlements,
        sum(transaction_count) as transactions, sum(gross_minor) as gross, sum(fees_minor) as fees,
        sum(splits_minor) as splits, (select round(date_part('epoch', started_at) * 1000) from edge) as from_ms
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
  /** When the first of the payments was recorded. */
  readonly recordedAtMs: number
  readonly count: bigint
  readonly grossMinor: bigint
}

/**
 * Sums the oldest unsettled payments of a balance by the day, in parts before and after the cut-off.
 *
 * @returns `isCut`: whether there are more
 */
async function sumUnsettled(
  on: Queryable,
  { businessId, live }: BalanceKey,
  cutOffMinutes: number,
): Promise<{ readonly parts: readonly UnsettledPart[]; readonly isCut: boolean }> {
  const { rows } = await on.query<{ at_ms: number; count: string; gross: string }>(
    `with settled as materialized (
        select coalesce((select scanned_sequence from settlement
          where business_id = $1 and live = $2 order by to_sequence desc limit 1),
          -(2::numeric ^ 62)::bigint) as up_to
      )
      select round(date_part('epoch', min(e.occurred_at)) * 1000) as at_ms, count(*) as count,
        sum(e.pending_minor - coalesce(r.minor, 0)) as gross
      from (
        select * from (
          (select a.business_sequence, a.occurred_at, a.pending_minor, t.id from archived_entry a
            cross join lateral (select * from transaction where id = a.subject_id offset 0) t
            where a.business_id = $1 and a.live = $2
              and a.business_sequence > (select up_to from settled)
              and a.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
              and t.status = 'SUCCESS' and not exists (select from ledger_posting p
                where p.transaction_id = t.id and p.kind = 'settlement' offset 0)
            order by a.business_sequence limit ${PAYMENTS_MAX + 1})
          union all
          (select l.business_sequence, o.occurred_at, o.pending_minor, t.id from event_log l
            cross join lateral (select * from outbox where seq = l.outbox_seq offset 0) o
            cross join lateral (select * from transaction where id = o.subject_id offset 0) t
            where l.business_id = $1 and l.live = $2
              and l.business_sequence > (select up_to from settled)
              and o.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
              and t.status = 'SUCCESS' and not exists (select from ledger_posting p
                where p.transaction_id = t.id and p.kind = 'settlement' offset 0)
              and ((o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0) or o.nets_zero)
              -- The row of an archived event remains until its partition is dropped.
              and l.position > (select archived from event_retention where id = 1)
            order by l.business_sequence limit ${PAYMENTS_MAX + 1})
        ) event order by business_sequence limit ${PAYMENTS_MAX + 1}
      ) e left join lateral refunded_pending(e.id) r (minor) on true
      group by floor((extract(epoch from e.occurred_at) + 3600) / 86400)::int4,
        mod(extract(epoch from e.occurred_at) + 3600, 86400) >= $3::int4 * 60`,
    [businessId, live, cutOffMinutes],
  )
  const parts = rows.map((row) => ({
    recordedAtMs: row.at_ms,
    count: BigInt(row.count),
    grossMinor: BigInt(row.gross),
  }))
  return { parts, isCut: parts.reduce((sum, { count }) => sum + count, 0n) > PAYMENTS_MAX }
}

/**
 * Counts the balances by the day on which their oldest unsettled payment is due.
 *
 * @param beforeMs the end of the period; balances that were due before the period count too
 */
async function countDue(on: Queryable, { live, businessIds }: Scope, beforeMs: number) {
  const { rows } = await on.query<{ day: number; balances: string }>(
    `select floor((extract(epoch from due_at) + 3600) / 86400)::int4 as day, count(*) as balances from (
        select due_at from settlement_due
        where live = $1 and due_at < $2 ${businessIds === undefined ? '' : 'and business_id = any ($3::text[])'}
        order by due_at limit ${BALANCES_MAX + 1}
      ) due group by 1`,
    [live, new Date(beforeMs), ...(businessIds === undefined ? [] : [businessIds])],
  )
  const days = rows.map(({ day, balances }) => ({ day, balances: BigInt(balances) }))
  return { days, isCut: days.reduce((sum, { balances }) => sum + balances, 0n) > BALANCES_MAX }
}
