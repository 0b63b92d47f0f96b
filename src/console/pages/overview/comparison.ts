import type { HourFigures } from '../../../../gen/inflow/overview/v1/figures_pb.ts'
import { durationText, HOUR, msOf } from '../../format/time.ts'

/** The last hour that is over, beside the same one a week before. */
export interface Comparison {
  /** `▲ 8 %`; `same`; empty if there is nothing to compare with. */
  readonly change: string
  /** `on last Mon 14:00`. */
  readonly since: string
  readonly isUp: boolean
}

const weekday = new Intl.DateTimeFormat('en-GB', { weekday: 'short' })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })

/** Compares one figure of the last whole hour with that of the same hour a week before. */
export function compare(
  hours: readonly HourFigures[],
  weekBefore: readonly HourFigures[],
  figure: (hour: HourFigures) => number,
): Comparison | undefined {
  const hour = hours.at(-2)
  const before = weekBefore.at(-2)
  const startMs = msOf(before?.startsAt)
  if (hour === undefined || before === undefined || startMs === undefined) return undefined
  const now = figure(hour)
  const then = figure(before)
  return {
    change: changeText(now, then),
    since: `on last ${weekday.format(startMs)} ${clock.format(startMs)}`,
    isUp: now >= then,
  }
}

/** `▲ 8 %` or `▼ 12 %`; nothing can be said of a share of zero. */
function changeText(now: number, then: number): string {
  if (now === then) return now === 0 ? 'None, as' : 'Same as'
  if (then === 0) return '▲ from none'
  const percent = (100 * (now - then)) / then
  const size = Math.abs(percent)
  const text = size < 1 ? '< 1' : size > 999 ? '> 999' : size.toFixed(0)
  return `${percent > 0 ? '▲' : '▼'} ${text} %`
}

/** The part of webhook attempts that receivers acknowledged, from 0 to 1; undefined: there was none. */
export function successOf(figures: HourFigures | undefined): number | undefined {
  if (figures === undefined || figures.attempts === 0n) return undefined
  return Math.min(1, Number(figures.delivered) / Number(figures.attempts))
}

/** `99.95 %`; only what has no failure at all is `100 %`. */
export function percentText(part: number | undefined): string {
  if (part === undefined) return '–'
  if (part === 1) return '100 %'
  return `${(Math.floor(part * 10_000) / 100).toFixed(2)} %`
}

/** For how long, in a word or two: `2 d 4 h`. */
export function ageText(fromMs: number, nowMs: number): string {
  const age = Math.max(0, nowMs - fromMs)
  if (age < 60_000) return '< 1 min'
  return durationText(age < HOUR ? Math.floor(age / 60_000) * 60_000 : age)
}
