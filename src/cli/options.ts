import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { AMOUNT_MINOR_MAX, formatAmount, parseAmount } from '../core/money.ts'
import { localTime } from './local-time.ts'
import { note } from './output.ts'

/** The most that one page of a list holds. */
const PAGE_SIZE_MAX = 200

/** Options of lists that come in pages. */
export interface PageOptions {
  readonly limit?: number
  readonly pageToken?: string
}

export function addPageOptions(verb: Command): Command {
  return verb
    .option('--limit <count>', `how many at the most, 1 to ${PAGE_SIZE_MAX} (default: 50)`, limit)
    .option('--page-token <token>', 'go on where an earlier page ended')
}

/** How many empty pages are passed over before the caller is asked to go on. */
const EMPTY_PAGES_MAX = 200

/** The next page that has something to show: one may be empty though more follow. */
export async function nextPage<Page extends { readonly nextPageToken: string }>(
  { pageToken = '' }: PageOptions,
  ask: (pageToken: string) => Promise<Page>,
  isEmpty: (page: Page) => boolean,
): Promise<Page> {
  let page = await ask(pageToken)
  for (let i = 0; i < EMPTY_PAGES_MAX && isEmpty(page) && page.nextPageToken !== ''; i++) {
    page = await ask(page.nextPageToken)
  }
  return page
}

/** Tells how to ask for the page after this one. */
export function notePage({ nextPageToken }: { readonly nextPageToken: string }): void {
  if (nextPageToken !== '') note(`More follow: --page-token ${nextPageToken}`)
}

/** `--business`, of verbs that need one. */
export function addBusinessOption(verb: Command): Command {
  return verb.option('--business <id>', 'the business (default: the demo one of a local service)')
}

/** Options of lists of what is of live or of test mode. */
export interface ModeOptions {
  readonly live?: boolean
  readonly test?: boolean
}

/** `--live` and `--test`; neither: both modes. */
export function addModeOptions(verb: Command): Command {
  return verb
    .addOption(new Option('--live', 'of live mode only').conflicts('test'))
    .option('--test', 'of test mode only')
}

/** The field of a request that the options ask for; none for both modes. */
export function modeOf({ live, test }: ModeOptions): { readonly live?: boolean } {
  return live || test ? { live: live === true } : {}
}

/** What a table says of the mode of a thing. */
export function modeName({ live }: { readonly live: boolean }): string {
  return live ? 'live' : 'test'
}

/** An option whose value is one name of a protobuf enum, written without a prefix. */
export function enumOption<Value extends number>(
  flags: string,
  description: string,
  values: Readonly<Record<string, Value>>,
  prefix = '',
): Option {
  const names = namesOf(values, prefix)
  return new Option(flags, `${description}: ${names.join(', ')}`).argParser((text: string) => {
    const value = values[prefix + text.toUpperCase()]
    if (!value) throw new InvalidArgumentError(`Must be one of ${names.join(', ')}.`)
    return value
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

/** Naira as a person writes them → kobo. */
export function amount(text: string): bigint {
  const amountMinor = parseAmount(text)
  if (amountMinor === undefined || amountMinor === 0n || amountMinor > AMOUNT_MINOR_MAX) {
    throw new InvalidArgumentError(
      `Must be naira, such as 1500 or 1500.50: from 0.01 to ${formatAmount(AMOUNT_MINOR_MAX)}.`,
    )
  }
  return amountMinor
}

/** A time as a person writes it. */
export function time(text: string): Timestamp {
  const at = localTime.parse(text)
  if (!at) {
    throw new InvalidArgumentError('Must be like 2026-11-20T10:00:00Z or "2026-11-20 10:00:00".')
  }
  return at
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** A span of time as a person writes it → seconds. */
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
