import type { TimeText } from '../core/clock.ts'
import { type FieldFault, invalidFields } from '../core/errors.ts'

/**
 * Reads the times of a request, by the names of their fields.
 *
 * @returns epoch milliseconds; undefined for an empty text
 * @throws Fault validation_failed that names each field at fault
 */
export function readTimes<Field extends string>(
  timeText: TimeText,
  texts: Readonly<Record<Field, string>>,
): Readonly<Record<Field, number | undefined>> {
  const faults: FieldFault[] = []
  const times = Object.entries<string>(texts).map(([field, text]) => {
    const time = text === '' ? undefined : timeText.parse(text)
    if (time === undefined && text !== '') {
      faults.push({ field, message: 'must be YYYY-MM-DD HH:MM:SS or RFC 3339' })
    }
    return [field, time]
  })
  if (faults.length > 0) throw invalidFields(faults)
  return Object.fromEntries(times)
}
