import { LAGOS_OFFSET_MS } from '../../banks/lagos-time.ts'

/** When payments are due. */
export const SCHEDULES = ['INSTANT', 'DAILY', 'WORKING_DAYS'] as const

export interface Schedule {
  readonly schedule: (typeof SCHEDULES)[number]
  /** Of WORKING_DAYS: how many after the day of the payment. */
  readonly workingDays: number
  /** Of DAILY and WORKING_DAYS: minutes after midnight in Lagos. */
  readonly cutOffMinutes: number
}

/** A schedule with its holidays. Times are milliseconds since the Unix epoch. */
export interface Calendar {
  /** When a payment is due that was recorded at a time. A later payment is never due earlier. */
  settlesAt(recordedAtMs: number): number
  /** What was recorded before this time is due now, and nothing else is. */
  cutOffAt(nowMs: number): number
}

const DAY_MS = 86_400_000
const MINUTE_MS = 60_000

/** No run of holidays is longer; beyond it, days count as working days. */
const DAYS_MAX = 1_000

/** @param holidays days as YYYY-MM-DD */
export function createCalendar(schedule: Schedule, holidays: Iterable<string>): Calendar {
  switch (schedule.schedule) {
    case 'INSTANT':
      return { settlesAt: (recordedAtMs) => recordedAtMs, cutOffAt: (nowMs) => nowMs + 1 }
    case 'DAILY':
      return daily(schedule.cutOffMinutes * MINUTE_MS)
    case 'WORKING_DAYS':
      return workingDays(schedule, new Set([...holidays].map(dayOf)))
  }
}

function daily(cutOffMs: number): Calendar {
  /** The last cut-off at or before a time. */
  const cutOffAt = (atMs: number): number => {
    const today = startOf(lagosDay(atMs)) + cutOffMs
    return today <= atMs ? today : today - DAY_MS
  }
  return { settlesAt: (recordedAtMs) => cutOffAt(recordedAtMs) + DAY_MS, cutOffAt }
}

function workingDays(
  { workingDays: count, cutOffMinutes }: Schedule,
  holidays: ReadonlySet<number>,
): Calendar {
  const isWorkingDay = (day: number): boolean => {
    // 1 January 1970 was a Thursday.
    const weekday = (day + 4) % 7
    return weekday !== 0 && weekday !== 6 && !holidays.has(day)
  }
  /** When the payments of a day are due. */
  const dueOf = (day: number): number => {
    let left = count
    let at = day
    while (left > 0) {
      at += 1
      if (isWorkingDay(at) || at - day > DAYS_MAX) left -= 1
    }
    return startOf(at) + cutOffMinutes * MINUTE_MS
  }
  return {
    settlesAt: (recordedAtMs) => dueOf(lagosDay(recordedAtMs)),
    cutOffAt(nowMs) {
      let day = lagosDay(nowMs)
      while (dueOf(day) > nowMs) day -= 1
      return startOf(day + 1)
    },
  }
}

/** Days since 1 January 1970, in Lagos. */
function lagosDay(atMs: number): number {
  return Math.floor((atMs + LAGOS_OFFSET_MS) / DAY_MS)
}

function startOf(day: number): number {
  return day * DAY_MS - LAGOS_OFFSET_MS
}

/** @param day YYYY-MM-DD */
function dayOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`) / DAY_MS
}
