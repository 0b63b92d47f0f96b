import { LAGOS_OFFSET_MS } from '../banks/lagos-time.ts'
import { DAY_MS, MINUTE_MS } from '../core/durations.ts'

/** When payments become due for settlement. */
export const SCHEDULES = ['INSTANT', 'DAILY', 'WORKING_DAYS'] as const

export interface Schedule {
  readonly schedule: (typeof SCHEDULES)[number]
  /** WORKING_DAYS: working days after the day of the payment. Other schedules: 0. */
  readonly workingDays: number
  /** DAILY and WORKING_DAYS: minutes after midnight in Lagos. */
  readonly cutOffMinutes: number
}

/** A schedule combined with the holidays. Times are milliseconds since the Unix epoch. */
export interface Calendar {
  /** The due time of a payment recorded at a time. A later payment is never due earlier. */
  settlesAt(recordedAtMs: number): number
  /** Exactly the payments recorded before this time are due at `nowMs`. */
  cutOffAt(nowMs: number): number
  /** The latest time at which the job begins to settle a payment recorded at a time. */
  settledBy(recordedAtMs: number): number
}

/** The schedule starts at most one settlement of a balance in this time, also under INSTANT. */
export const SETTLEMENT_INTERVAL_MS = MINUTE_MS

/** Bounds the search for working days: later days all count as working days. */
const DAYS_MAX = 1_000

/** @param holidays days as YYYY-MM-DD */
export function createCalendar(schedule: Schedule, holidays: Iterable<string>): Calendar {
  switch (schedule.schedule) {
    case 'INSTANT':
      return instant
    case 'DAILY':
      return daily(schedule.cutOffMinutes * MINUTE_MS)
    case 'WORKING_DAYS':
      return workingDays(schedule, new Set([...holidays].map(toDay)))
  }
}

const instant: Calendar = {
  settlesAt: (recordedAtMs) => recordedAtMs,
  cutOffAt: (nowMs) => nowMs + 1,
  settledBy: (recordedAtMs) => recordedAtMs + SETTLEMENT_INTERVAL_MS,
}

function daily(cutOffMs: number): Calendar {
  /** The latest cut-off at or before a time. */
  const cutOffAt = (atMs: number): number => {
    const today = startOf(lagosDay(atMs)) + cutOffMs
    return today <= atMs ? today : today - DAY_MS
  }
  const settlesAt = (recordedAtMs: number): number => cutOffAt(recordedAtMs) + DAY_MS
  return { settlesAt, cutOffAt, settledBy: settlesAt }
}

function workingDays(
  { workingDays: count, cutOffMinutes }: Schedule,
  holidays: ReadonlySet<number>,
): Calendar {
  const isWorkingDay = (day: number): boolean => !isWeekend(day) && !holidays.has(day)
  /** The due time of payments recorded on a day. */
  const dueTimeOf = (day: number): number => {
    let remaining = count
    let at = day
    while (remaining > 0) {
      at += 1
      if (isWorkingDay(at) || at - day > DAYS_MAX) remaining -= 1
    }
    return startOf(at) + cutOffMinutes * MINUTE_MS
  }
  const settlesAt = (recordedAtMs: number): number => dueTimeOf(lagosDay(recordedAtMs))
  return {
    settlesAt,
    settledBy: settlesAt,
    cutOffAt(nowMs) {
      let day = lagosDay(nowMs)
      while (dueTimeOf(day) > nowMs) day -= 1
      return startOf(day + 1)
    },
  }
}

/** Days since 1 January 1970, in Lagos. */
export function lagosDay(atMs: number): number {
  return Math.floor((atMs + LAGOS_OFFSET_MS) / DAY_MS)
}

/** Midnight in Lagos at the start of a day, in epoch milliseconds. */
export function startOf(day: number): number {
  return day * DAY_MS - LAGOS_OFFSET_MS
}

/** @param day since 1 January 1970, which was a Thursday */
export function isWeekend(day: number): boolean {
  return [0, 6].includes((day + 4) % 7)
}

/** Days since 1 January 1970. @param day YYYY-MM-DD */
function toDay(day: string): number {
  return Date.parse(`${day}T00:00:00Z`) / DAY_MS
}
