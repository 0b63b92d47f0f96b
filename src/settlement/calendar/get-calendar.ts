import { LAGOS_OFFSET_MS } from '../../banks/lagos-time.ts'
import { getBusiness } from '../../businesses/get-business.ts'
import type { Clock } from '../../core/clock.ts'
import { firstIdAt } from '../../core/ids.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { Database } from '../../postgres/orm.ts'
import { readCalendar } from '../terms/calendar.ts'
import { listHolidaysOf } from '../terms/store.ts'
import { countDue, type SettledDay, sumSettled, sumUnsettled } from './store.ts'

const DAY_MS = 86_400_000

interface Request {
  /** Empty: all businesses that the caller may see. */
  readonly businessId: string
  /** The businesses that the caller may see; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
  readonly live: boolean
  /** YYYY-MM */
  readonly month: string
}

/** What falls due on a day. */
interface Due {
  readonly balances: bigint
  /** 0 without a business, like the next one. */
  readonly transactions: bigint
  readonly grossMinor: bigint
}

/** A day in Lagos. */
export interface CalendarDay {
  /** YYYY-MM-DD */
  readonly day: string
  readonly isWorkingDay: boolean
  /** Empty if it is no holiday. */
  readonly holidayName: string
  readonly settled: SettledDay | undefined
  readonly due: Due
}

interface SettlementCalendar {
  readonly days: readonly CalendarDay[]
  /** Only settlements that started since then count; undefined: all of the month. */
  readonly settledFromMs: number | undefined
  /** Whether more is unsettled than was read. */
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
  const today = Math.floor((clock.now() + LAGOS_OFFSET_MS) / DAY_MS)
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

interface DueDays {
  readonly days: ReadonlyMap<number, Due>
  readonly isCut: boolean
}

/** What is overdue counts for today. */
async function dueOfAll(
  on: Queryable,
  scope: { readonly live: boolean; readonly businessIds: readonly string[] | undefined },
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

async function dueOfBalance(
  on: Queryable,
  key: { readonly businessId: string; readonly live: boolean },
  today: number,
): Promise<DueDays> {
  const { terms, calendar } = await readCalendar(on, key.businessId)
  const { parts, isCut } = await sumUnsettled(on, key, terms.cutOffMinutes)
  const found = new Map<number, Due>()
  for (const { recordedAtMs, count, grossMinor } of parts) {
    const dueDay = Math.floor((calendar.settlesAt(recordedAtMs) + LAGOS_OFFSET_MS) / DAY_MS)
    const day = Math.max(dueDay, today)
    const { transactions, grossMinor: sum } = found.get(day) ?? NOTHING
    const due = { balances: 0n, transactions: transactions + count, grossMinor: sum + grossMinor }
    found.set(day, due)
  }
  const oldest = Math.min(...found.keys())
  const due = found.get(oldest)
  if (due !== undefined) found.set(oldest, { ...due, balances: 1n })
  return { days: found, isCut }
}

/** Midnight in Lagos at the start of a day, in epoch milliseconds. @param day since 1 January 1970 */
function startOf(day: number): number {
  return day * DAY_MS - LAGOS_OFFSET_MS
}

/** YYYY-MM-DD */
function textOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10)
}

function isWeekend(day: number): boolean {
  return [0, 6].includes(new Date(day * DAY_MS).getUTCDay())
}
