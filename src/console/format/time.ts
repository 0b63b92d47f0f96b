import { type Timestamp, timestampMs } from '@bufbuild/protobuf/wkt'

const SECOND = 1_000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

const LAGOS = 'Africa/Lagos'

/** @param timeZone undefined: the time zone of the viewer */
export function formatter(timeZone: string | undefined, options: Intl.DateTimeFormatOptions) {
  let format: ((ms: number) => string) | undefined
  return (ms: number): string => {
    // Creating a formatter takes milliseconds, so it is created when it is first used.
    format ??= new Intl.DateTimeFormat('en-GB', { ...options, timeZone }).format
    return format(ms)
  }
}

export const CLOCK = { hour: '2-digit', minute: '2-digit' } as const
const WITH_SECONDS = { ...CLOCK, second: '2-digit' } as const
const WHOLE = { year: 'numeric', month: 'short', day: '2-digit', ...WITH_SECONDS } as const

const localText = formatter(undefined, WHOLE)
const lagosText = formatter(LAGOS, WHOLE)
const utcText = formatter('UTC', WHOLE)

/** Milliseconds since the Unix epoch. */
export function msOf(time: Timestamp | undefined): number | undefined {
  return time && timestampMs(time)
}

/** Formats a time relatively within an hour (`42 s ago`, `in 4 min`), and otherwise as local time. */
export function timeText(ms: number, nowMs: number): string {
  const age = nowMs - ms
  // The clock of a page ticks once a second.
  if (age < SECOND && age > -2 * SECOND) return 'now'
  if (Math.abs(age) >= HOUR) return localText(ms)
  const text = durationText(Math.floor(Math.abs(age) / SECOND) * SECOND)
  return age >= 0 ? `${text} ago` : `in ${text}`
}

/** The time in UTC, in Lagos, and in the viewer's zone if that is different. */
export function timeTitle(ms: number): string {
  const lines = [`${utcText(ms)} UTC`, `${lagosText(ms)} Lagos`]
  if (localText(ms) !== lagosText(ms)) lines.push(`${localText(ms)} local`)
  return lines.join('\n')
}

/** `312 ms`, `4.1 s`, `4 min 12 s`, `3 h 5 min`, `2 d 4 h`. */
export function durationText(ms: number): string {
  if (ms < SECOND) return `${Math.max(0, Math.floor(ms))} ms`
  if (ms < 10 * SECOND) return `${Math.floor(ms / 100) / 10} s`
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`
  if (ms < HOUR) return pair(ms, MINUTE, 'min', SECOND, 's')
  if (ms < DAY) return pair(ms, HOUR, 'h', MINUTE, 'min')
  return pair(ms, DAY, 'd', HOUR, 'h')
}

function pair(ms: number, large: number, name: string, small: number, rest: string): string {
  const count = Math.floor(ms / large)
  const left = Math.floor((ms % large) / small)
  return left === 0 ? `${count} ${name}` : `${count} ${name} ${left} ${rest}`
}

/** `14:05` in Lagos. */
export const lagosClock = formatter(LAGOS, CLOCK)

/** `Mon 23 Nov` in Lagos. */
export const lagosDay = formatter(LAGOS, { weekday: 'short', day: 'numeric', month: 'short' })

/** `14:05:32` in the viewer's zone. */
export const clockText = formatter(undefined, WITH_SECONDS)

/** `23 Nov` in the viewer's zone. */
export const dayText = formatter(undefined, { day: '2-digit', month: 'short' })

/** A local time in the format of a time field: `2026-11-23T14:05`. */
export function localField(ms: number): string {
  return new Date(ms - new Date(ms).getTimezoneOffset() * MINUTE).toISOString().slice(0, 16)
}
