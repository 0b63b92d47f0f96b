import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { createTimeText } from '../core/clock.ts'
import { AMOUNT_MINOR_MAX, formatAmount, parseAmount } from '../core/money.ts'
import { fromTimestamp } from '../protobuf/values.ts'
import { localTime } from './local-time.ts'
import { note } from './output.ts'

/** The largest page of a list. */
const PAGE_SIZE_MAX = 200

/** Options of paginated lists. */
export interface PageOptions {
  readonly limit?: number
  readonly pageToken?: string
}

export function addPageOptions(verb: Command): Command {
  return verb
    .option('--limit <count>', `page size, 1 to ${PAGE_SIZE_MAX} (default: 50)`, limit)
    .option('--page-token <token>', 'continue after an earlier page')
}

/** The most empty pages that are skipped before the command returns one. */
const EMPTY_PAGES_MAX = 200

/** Returns the next page that is not empty: a page may be empty although more follow. */
export async function nextPage<Page extends { readonly nextPageToken: string }>(
  { pageToken = '' }: PageOptions,
  request: (pageToken: string) => Promise<Page>,
  isEmpty: (page: Page) => boolean,
): Promise<Page> {
  let page = await request(pageToken)
  for (let i = 0; i < EMPTY_PAGES_MAX && isEmpty(page) && page.nextPageToken !== ''; i++) {
    page = await request(page.nextPageToken)
  }
  return page
}

/** Prints how to request the next page. */
export function notePage({ nextPageToken }: { readonly nextPageToken: string }): void {
  if (nextPageToken !== '') note(`More results: --page-token ${nextPageToken}`)
}

/** Adds `--business` to a verb that needs a business. */
export function addBusinessOption(verb: Command): Command {
  return verb.option(
    '--business <id>',
    'the business (default: the demo business of a local service)',
  )
}

/** Options that filter a list by mode. */
export interface ModeOptions {
  readonly live?: boolean
  readonly test?: boolean
}

/** Adds `--live` and `--test`; without either, a list shows both modes. */
export function addModeOptions(verb: Command): Command {
  return verb
    .addOption(new Option('--live', 'live mode only').conflicts('test'))
    .option('--test', 'test mode only')
}

/** Returns the request field for the options; empty for both modes. */
export function modeOf({ live, test }: ModeOptions): { readonly live?: boolean } {
  return live || test ? { live: live === true } : {}
}

/** Returns the name of the mode, for a table. */
export function modeName({ live }: { readonly live: boolean }): string {
  return live ? 'live' : 'test'
}

/** An option whose value is a name of a protobuf enum, without its prefix. */
export function enumOption<Value extends number>(
  flags: string,
  description: string,
  values: Readonly<Record<string, Value>>,
  prefix = '',
): Option {
  const names = namesOf(values, prefix)
  const option = new Option(flags, description).choices(names)
  return option.argParser((text: string) => {
    const value = values[prefix + text.toUpperCase()]
    if (!value) throw new InvalidArgumentError(`Must be one of ${names.join(', ')}.`)
    return value
  })
}

/** Like `enumOption`, for several values. */
export function enumsOption<Value extends number>(
  flags: string,
  description: string,
  values: Readonly<Record<string, Value>>,
  prefix = '',
): Option {
  const names = namesOf(values, prefix)
  const option = new Option(flags, description).choices(names)
  return option.argParser((text: string, earlier: readonly Value[] = []) => {
    const value = values[prefix + text.toUpperCase()]
    if (!value) throw new InvalidArgumentError(`Must be of ${names.join(', ')}.`)
    return [...new Set([...earlier, value])]
  })
}

/** The name of an enum's value without its prefix; empty for the unspecified one. */
export function enumName<Value extends number>(
  value: Value,
  values: Readonly<Record<string, number>>,
  prefix = '',
): string {
  if (value === 0) return ''
  const name = Object.keys(values).find((key) => values[key] === value)
  return name?.slice(prefix.length) ?? String(value)
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

/** Parses a time. */
export function time(text: string): Timestamp {
  const at = localTime.parse(text)
  if (!at) {
    throw new InvalidArgumentError('Must be like 2026-11-20T10:00:00Z or "2026-11-20 10:00:00".')
  }
  return at
}

/** Banks' statements are in this time zone. */
const lagos = createTimeText('Africa/Lagos')

/** Formats and parses times in the zone of banks' statements, whatever that of the machine is. */
export const lagosTime = {
  format: (at: Timestamp | undefined): string => (at ? lagos.format(fromTimestamp(at)) : ''),
  parse(text: string): Timestamp {
    const atMs = lagos.parse(text)
    if (atMs !== undefined) return timestampFromMs(atMs)
    throw new InvalidArgumentError(
      'Must be like "2026-11-20 10:00:00" in Africa/Lagos, or 2026-11-20T10:00:00Z.',
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

function limit(text: string): number {
  const count = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (count < 1 || count > PAGE_SIZE_MAX) {
    throw new InvalidArgumentError(`Must be a number from 1 to ${PAGE_SIZE_MAX}.`)
  }
  return count
}

function namesOf(values: Readonly<Record<string, number>>, prefix: string): string[] {
  return Object.keys(values)
    .filter((key) => values[key] !== 0)
    .map((key) => key.slice(prefix.length))
}
