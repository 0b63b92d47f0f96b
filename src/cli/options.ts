import type { DescEnum } from '@bufbuild/protobuf'
import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { InvalidArgumentError } from 'commander'
import { createTimeText, type TimeText } from '../core/clock.ts'
import { AMOUNT_MINOR_MAX, formatAmount, parseAmount } from '../core/money.ts'
import { fromTimestamp } from '../protobuf/values.ts'
import { EXIT, Failure, willShow } from './output.ts'
import type { OptionRule } from './verb.ts'

// Parses options and formats values, by the types of fields.

/** Formats and parses times in DISPLAY_TIME_ZONE, or in the time zone of the machine if it is not set. */
export const localTime = {
  /** Returns YYYY-MM-DD HH:MM:SS; empty if undefined. */
  format(at: Timestamp | undefined): string {
    if (at === undefined) return ''
    willShow(zoneOf())
    return times().format(fromTimestamp(at))
  },
  /** Parses the form of `format`, or RFC 3339; undefined if invalid. */
  parse(text: string): Timestamp | undefined {
    const epochMs = times().parse(text)
    return epochMs === undefined ? undefined : timestampFromMs(epochMs)
  },
}

let timeText: TimeText | undefined

const zoneOf = (): string =>
  process.env['DISPLAY_TIME_ZONE']?.trim() || Intl.DateTimeFormat().resolvedOptions().timeZone

function times(): TimeText {
  timeText ??= createTimes(zoneOf())
  return timeText
}

function createTimes(zone: string): TimeText {
  try {
    return createTimeText(zone)
  } catch {
    throw new Failure(EXIT.usage, 'DISPLAY_TIME_ZONE must be an IANA zone such as Africa/Lagos')
  }
}

/** Parses a time; a date stands for its first second. */
export function time(text: string): Timestamp {
  const at = localTime.parse(firstSecond(text))
  if (!at) {
    throw new InvalidArgumentError(
      'Must be like 2026-11-20, "2026-11-20 10:00:00" or 2026-11-20T10:00:00Z.',
    )
  }
  return at
}

const firstSecond = (text: string) => (/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text} 00:00:00` : text)

/** The time zone of bank statements. */
const lagos = createTimeText('Africa/Lagos')

/** Formats and parses times in the zone of bank statements, whatever the zone of the machine is. */
export const lagosTime = {
  format: (at: Timestamp | undefined): string => (at ? lagos.format(fromTimestamp(at)) : ''),
  parse(text: string): Timestamp {
    const atMs = lagos.parse(firstSecond(text))
    if (atMs !== undefined) return timestampFromMs(atMs)
    throw new InvalidArgumentError(
      'Must be like 2026-11-20 or "2026-11-20 10:00:00" in Africa/Lagos, or 2026-11-20T10:00:00Z.',
    )
  },
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** Parses a duration such as 48h. @returns seconds */
export function durationSeconds(text: string): number {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text === '0' ? '0s' : text) ?? []
  if (count === undefined) throw new InvalidArgumentError('Must be like 48h, 30m, 90s, 2d or 0.')
  return Number(count) * (SECONDS[unit ?? ''] as number)
}

/** Parses an amount in naira. @returns kobo */
export function amount(text: string): bigint {
  const amountMinor = parseAmount(text)
  if (amountMinor === undefined || amountMinor === 0n || amountMinor > AMOUNT_MINOR_MAX) {
    throw new InvalidArgumentError(
      `Must be naira, such as 1500 or 1500.50: from 0.01 to ${formatAmount(AMOUNT_MINOR_MAX)}.`,
    )
  }
  return amountMinor
}

/** Returns a parser of whole numbers. */
export function numberFrom(min: number, max: number): (text: string) => number {
  return (text) => {
    const count = /^\d{1,9}$/.test(text) ? Number(text) : -1
    if (count >= min && count <= max) return count
    throw new InvalidArgumentError(`Must be a number from ${min} to ${max}.`)
  }
}

/** An option whose value is a name of a protobuf enum, without its prefix. */
export function enumRule(schema: DescEnum): OptionRule {
  const choices = enumNames(schema)
  return { choices, read: (text: string) => readEnum(schema, text, 'one of') }
}

/** Like `enumRule`, for several values. */
export function enumsRule(schema: DescEnum): OptionRule {
  const read = (text: string, before: readonly number[] = []) => [
    ...new Set([...before, readEnum(schema, text, 'of')]),
  ]
  return { choices: enumNames(schema), read }
}

function readEnum(schema: DescEnum, text: string, of: string): number {
  const name = (prefixOf(schema) + text).toUpperCase()
  const found = schema.values.find((each) => each.name === name && each.number !== 0)
  if (found) return found.number
  throw new InvalidArgumentError(`Must be ${of} ${enumNames(schema).join(', ')}.`)
}

/** The names of an enum's values, without their prefix and without the unspecified one. */
export function enumNames(schema: DescEnum): string[] {
  return schema.values
    .filter(({ number }) => number !== 0)
    .map(({ number }) => enumName(schema, number))
}

/** The name of an enum's value without its prefix; empty for the unspecified one. */
export function enumName(schema: DescEnum, value = 0): string {
  if (value === 0) return ''
  return schema.value[value]?.name.slice(prefixOf(schema).length) ?? String(value)
}

/** The prefix of the names of an enum's values, such as "BANK_". */
export function prefixOf(schema: DescEnum): string {
  return schema.value[0]?.name.replace(/UNSPECIFIED$/, '') ?? ''
}
