import { HOUR_MS } from '../core/durations.ts'

/** Africa/Lagos is one hour ahead of UTC and has no daylight saving time. */
export const LAGOS_OFFSET_MS = HOUR_MS

const DATE_FIRST =
  /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?$/
const MONTH_FIRST = /^(\d{1,2})\/(\d{1,2})\/(\d{4}) (\d{1,2}):(\d\d)(?::(\d\d))? ([AP])M$/i

/**
 * Parses a time as Nigerian banks write it: `2023-06-07T09:35:29`, `2021-03-01 18:06:20.0`,
 * `1/19/2024 10:12:53 AM`. A time without a zone is in Lagos time.
 *
 * @returns epoch milliseconds; undefined for another format or an invalid date
 */
export function parseLagosTime(text: string): number | undefined {
  const dateFirst = DATE_FIRST.exec(text)
  if (dateFirst) {
    const [, year, month, day, hour, minute, second, fraction = '', zone] = dateFirst
    const localMs = toLocalMs([year, month, day, hour, minute, second])
    const offsetMs = zone === undefined ? LAGOS_OFFSET_MS : toOffsetMs(zone)
    if (localMs === undefined || offsetMs === undefined) return undefined
    return localMs + Number(fraction.slice(0, 3).padEnd(3, '0')) - offsetMs
  }
  const [, month, day, year, hour = '', minute, second = '0', half] = MONTH_FIRST.exec(text) ?? []
  if (half === undefined || Number(hour) < 1 || Number(hour) > 12) return undefined
  const hours = (Number(hour) % 12) + (half.toUpperCase() === 'P' ? 12 : 0)
  const localMs = toLocalMs([year, month, day, String(hours), minute, second])
  return localMs === undefined ? undefined : localMs - LAGOS_OFFSET_MS
}

/** @param parts year, month from 1, day, hour, minute, second */
function toLocalMs(parts: readonly (string | undefined)[]): number | undefined {
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.map(Number)
  const localMs = Date.UTC(year, month - 1, day, hour, minute, second)
  // Date.UTC turns 30 February into 2 March; reject such dates instead.
  const date = new Date(localMs)
  const isValid =
    date.getUTCMonth() === month - 1 &&
    date.getUTCDate() === day &&
    date.getUTCHours() === hour &&
    date.getUTCMinutes() === minute &&
    date.getUTCSeconds() === second
  return isValid && year >= 2000 && year <= 2099 ? localMs : undefined
}

function toOffsetMs(zone: string): number | undefined {
  if (zone === 'Z') return 0
  const [hours = 0, minutes = 0] = zone.slice(1).split(':').map(Number)
  if (hours > 14 || minutes > 59) return undefined
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000
}
