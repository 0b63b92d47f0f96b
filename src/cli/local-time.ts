import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { createTimeText, type TimeText } from '../core/clock.ts'
import { EXIT, Failure } from './failure.ts'

/** Times as a person reads and writes them: in DISPLAY_TIME_ZONE, else in the machine's zone. */
export const localTime = {
  /** YYYY-MM-DD HH:MM:SS; empty when there is none. */
  format: (at: Timestamp | undefined): string => (at ? times().format(timestampMs(at)) : ''),
  /** Reads that form, or RFC 3339. */
  parse(text: string): Timestamp | undefined {
    const epochMs = times().parse(text)
    return epochMs === undefined ? undefined : timestampFromMs(epochMs)
  },
}

let known: TimeText | undefined

function times(): TimeText {
  known ??= open(process.env['DISPLAY_TIME_ZONE']?.trim())
  return known
}

function open(zone: string | undefined): TimeText {
  try {
    return createTimeText(zone || Intl.DateTimeFormat().resolvedOptions().timeZone)
  } catch {
    throw new Failure(EXIT.usage, 'DISPLAY_TIME_ZONE must be an IANA zone such as Africa/Lagos')
  }
}
