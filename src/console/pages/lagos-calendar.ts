import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { DAY_MS } from '../../core/durations.ts'

/** The offset of Lagos, which is an hour ahead of UTC all year. */
const LAGOS_MS = 3_600_000
/** The day in Lagos at a time, as YYYY-MM-DD. */
export function dayAt(ms: number): string {
  return new Date(ms + LAGOS_MS).toISOString().slice(0, 10)
}

/** When a day begins in Lagos. @param day YYYY-MM-DD */
export function dayStartMs(day: string): number {
  return Date.parse(`${day}T00:00:00Z`) - LAGOS_MS
}

/** The period of the days from `from` to `to`, including the last day. */
export function periodOf(from: string, to: string): { from: Timestamp; to: Timestamp } {
  return {
    from: timestampFromMs(dayStartMs(from)),
    to: timestampFromMs(dayStartMs(to) + DAY_MS),
  }
}

/** The month that is `months` later. @param month YYYY-MM */
export function shiftMonth(month: string, months: number): string {
  const [year = 0, number = 1] = month.split('-').map(Number)
  return new Date(Date.UTC(year, number - 1 + months, 1)).toISOString().slice(0, 7)
}

/** `November 2026`. */
export function monthName(month: string): string {
  return format({ month: 'long', year: 'numeric' }, `${month}-01`)
}

/** `Friday, 20 November 2026`. */
export function dayName(day: string): string {
  return format({ weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' }, day)
}

function format(options: Intl.DateTimeFormatOptions, day: string): string {
  return new Intl.DateTimeFormat('en-GB', { ...options, timeZone: 'UTC' }).format(
    Date.parse(`${day}T00:00:00Z`),
  )
}

/** How many days of the first week are before the first of the month; weeks begin on Monday. */
export function blanksBefore(month: string): number {
  return (new Date(`${month}-01T00:00:00Z`).getUTCDay() + 6) % 7
}
