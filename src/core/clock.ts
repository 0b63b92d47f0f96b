import { LRUCache } from 'lru-cache'
import { DAY_MS } from './durations.ts'

/** The time, passed in so that tests can set it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number
}

export const systemClock: Clock = { now: () => Date.now() }

/** Formats times as `YYYY-MM-DD HH:MM:SS` in one time zone. */
export interface TimeText {
  /** @param epochMs milliseconds since the Unix epoch */
  format(epochMs: number): string
  /**
   * Parses the form of `format` or RFC 3339. As in Temporal, a local time that the clocks skip is moved forward by the length
   * of the gap, and a local time that the clocks repeat is the first of the two.
   *
   * @returns epoch milliseconds; undefined for any other text
   */
  parse(text: string): number | undefined
}

const PLAIN = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)$/
const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/

/** The range of years with four digits: Date cannot parse the texts of Intl for other years. */
const YEARS_MS = { from: Date.UTC(1001, 0), to: Date.UTC(9999, 0) }

/** @param timeZone an IANA name such as Africa/Lagos @throws RangeError if the zone is unknown */
export function createTimeText(timeZone: string): TimeText {
  const intl = new Intl.DateTimeFormat('en-CA', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  })
  // A call of Intl takes microseconds. Zones change their offset only on quarter hours, so an offset
  // is cached for each quarter of an hour.
  const offsets = new LRUCache<number, number>({ max: 1_000 })
  const offsetMs = (epochMs: number): number => {
    const withinMs = Math.min(Math.max(epochMs, YEARS_MS.from), YEARS_MS.to)
    const quarter = Math.floor(withinMs / 900_000)
    const known = offsets.get(quarter)
    if (known !== undefined) return known
    const parts = intl.format(quarter * 900_000).replace(', ', 'T')
    const offset = Date.parse(`${parts}Z`) - quarter * 900_000
    offsets.set(quarter, offset)
    return offset
  }
  /** @param localMs a local time, as if it were UTC */
  const fromLocal = (localMs: number): number => {
    // No zone changes its offset twice within two days.
    const [before, after] = [offsetMs(localMs - DAY_MS), offsetMs(localMs + DAY_MS)]
    const shows = (offset: number) => offsetMs(localMs - offset) === offset
    return localMs - (shows(before) || !shows(after) ? before : after)
  }
  return {
    format: (epochMs) =>
      new Date(epochMs + offsetMs(epochMs)).toISOString().slice(0, 19).replace('T', ' '),
    parse: (text) => {
      const plain = PLAIN.exec(text)
      if (plain) {
        const local = parseExactly(`${plain[1]}T${plain[2]}`)
        return local === undefined ? undefined : fromLocal(local)
      }
      if (!RFC_3339.test(text) || parseExactly(text.slice(0, 19)) === undefined) return undefined
      const parsed = Date.parse(text)
      return Number.isNaN(parsed) ? undefined : parsed
    },
  }
}

/** Rejects 30 February, which Date.parse reads as 2 March. */
function parseExactly(text: string): number | undefined {
  const epochMs = Date.parse(`${text}Z`)
  if (Number.isNaN(epochMs)) return undefined
  return new Date(epochMs).toISOString().startsWith(text) ? epochMs : undefined
}
