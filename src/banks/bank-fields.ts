import { parsed } from '../config/settings.ts'

/** A JSON object from a bank, as `parseBankJson` returns it, or for a bank. */
export type BankFields = Readonly<Record<string, unknown>>

function isFields(value: unknown): value is BankFields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** @returns undefined unless the value is an object */
export function fieldsOf(value: unknown): BankFields | undefined {
  return isFields(value) ? value : undefined
}

/** @returns the text at `path`, without the spaces that banks pad it with */
export function textOf(fields: unknown, path: string): string {
  return getPath(fields, path).trim()
}

/** Whether the text is valid as a session id or as a bank's key of a payment. */
export function isPaymentKey(text: string): boolean {
  return /^[A-Za-z0-9_./-]{1,64}$/.test(text)
}

export function isAccountNumber(text: string): boolean {
  return /^\d{10}$/.test(text)
}

/**
 * Parses a naira amount as banks write it, without floats: "1500.5" → 150050n.
 *
 * @returns kobo; undefined unless the text is a plain decimal with at most 15 integer digits and
 * two decimals: `1e3` and `1.005` are rejected
 */
export function parseNaira(text: string): bigint | undefined {
  const match = /^(\d{1,15})(?:\.(\d{1,2}))?$/.exec(text)
  if (!match) return undefined
  return BigInt(`${match[1]}${(match[2] ?? '').padEnd(2, '0')}`)
}

/**
 * Parses a balance, without floats. Other than amounts, balances are negative at times, have more
 * than two decimals, or an exponent: "468520.951" → 46852095n, "1.5E7" → 1500000000n.
 *
 * @returns kobo, without what is less than one; undefined for another text
 */
export function parseBalance(text: string): bigint | undefined {
  const match = /^(-?)(\d{1,30})(?:\.(\d{1,30}))?(?:[eE]\+?(\d{1,2}))?$/.exec(text)
  if (!match) return undefined
  const [, sign, whole = '', decimals = '', exponent = '0'] = match
  const shifted = Number(exponent) + KOBO_DIGITS
  const digits = whole + decimals.slice(0, shifted).padEnd(shifted, '0')
  return BigInt(`${sign}${digits}`)
}

const KOBO_DIGITS = 2

/**
 * Returns the text at a path of a bank's JSON, unchanged; a number is the text of its token (see
 * `parseBankJson`).
 *
 * @param path names joined by dots: `customer.account.number`
 * @returns an empty string if there is no text
 */
export function getPath(body: unknown, path: string): string {
  let value = body
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return ''
    value = (value as Readonly<Record<string, unknown>>)[name]
  }
  return typeof value === 'string' ? value : ''
}

/** A setting with a JSON object of extra fields for a bank's create request. */
export const createFields = parsed(
  parseFields,
  'must be a JSON object such as {"order":{"country":"NGA"}}',
).default({})

/** @returns `fields` overridden by `overrides`; nested objects are merged the same way */
export function mergeFields(fields: BankFields, overrides: BankFields): BankFields {
  const merged: Record<string, unknown> = { ...fields }
  for (const [name, value] of Object.entries(overrides)) {
    const current = merged[name]
    const isNested = isFields(current) && isFields(value)
    Object.defineProperty(merged, name, {
      value: isNested ? mergeFields(current, value) : value,
      enumerable: true,
      configurable: true,
      writable: true,
    })
  }
  return merged
}

function parseFields(text: string): BankFields | undefined {
  try {
    return fieldsOf(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** Bounds the regular expressions below: reads this many times the length that is kept. */
const READ_FACTOR = 4

/** Most texts match this, and then nothing has to be replaced. */
const PLAIN = /^(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?$/

/**
 * Characters that show nothing, or change how others are shown. U+200C and U+200D stay between letters of the scripts
 * that they join, as in the contract.
 */
const INVISIBLE =
  /(?![\u200c\u200d])\p{Cf}|(?<![\u0620-\u109f])[\u200c\u200d]|[\u200c\u200d](?![\u0620-\u109f])/gu

const UNPRINTABLE = / *[\p{Cc}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]+ */gu

/**
 * Prepares what a bank or a payer wrote for storage, so that people can read it: removes invisible characters, replaces
 * others that are not printable by spaces (PostgreSQL rejects U+0000 in a text), trims it and truncates it. Money that
 * arrived is recorded whatever is written about it; what the contract refuses in a request is left out here.
 *
 * @param charactersMax the maximum number of code points
 */
export function plainText(text: string, charactersMax: number): string {
  if (text.length <= charactersMax && PLAIN.test(text)) return text
  const read = text.slice(0, charactersMax * READ_FACTOR)
  const printable = read.replaceAll(UNPRINTABLE, ' ').replaceAll(INVISIBLE, '').trim()
  if (printable.length <= charactersMax) return printable
  const kept = [...printable].slice(0, charactersMax).join('')
  return kept.replace(/[\s\u200c\u200d]+$/u, '')
}
