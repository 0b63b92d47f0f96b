import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { createTimeText, type TimeText } from '../core/clock.ts'
import { fromTimestamp } from '../protobuf/values.ts'
import { EXIT, Failure } from './failure.ts'

/** Formats and parses times in DISPLAY_TIME_ZONE, else in the time zone of the machine. */
export const localTime = {
  /** Returns YYYY-MM-DD HH:MM:SS; empty if undefined. */
  format: (at: Timestamp | undefined): string => (at ? times().format(fromTimestamp(at)) : ''),
  /** Parses that form, or RFC 3339; undefined if invalid. */
  parse(text: string): Timestamp | undefined {
    const epochMs = times().parse(text)
    return epochMs === undefined ? undefined : timestampFromMs(epochMs)
  },
}

let timeText: TimeText | undefined

function times(): TimeText {
  timeText ??= create(process.env['DISPLAY_TIME_ZONE']?.trim())
  return timeText
}

function create(zone: string | undefined): TimeText {
  try {
    return createTimeText(zone || Intl.DateTimeFormat().resolvedOptions().timeZone)
  } catch {
    throw new Failure(EXIT.usage, 'DISPLAY_TIME_ZONE must be an IANA zone such as Africa/Lagos')
  }
}
