import { createHash, timingSafeEqual } from 'node:crypto'
import { parsed } from '../config/settings.ts'

/** A JSON object from a bank, as `parseBankJson` returns it, or a JSON object for a bank. */
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

export function malformed(name: string, value: string) {
  return { kind: 'malformed', cause: `${name} is ${JSON.stringify(plainText(value, 80))}` } as const
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
 * Parses a balance without floats. Unlike amounts, balances may be negative, and may have more
 * than two decimals or an exponent: "468520.951" → 46852095n, "1.5E7" → 1500000000n.
 *
 * @returns whole kobo; undefined if the text is not a number
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

/** @returns undefined if the text is not a JSON object */
export function parseFields(text: string): BankFields | undefined {
  try {
    return fieldsOf(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** Bounds the work of the regular expressions below: this many times the kept length is read. */
const READ_FACTOR = 4

/** Matches texts in which nothing has to be replaced, as in most texts. */
const PLAIN = /^(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?$/

/**
 * Characters that are invisible, or change how other characters are shown. As in the contract, U+200C and U+200D are kept
 * between letters of the scripts in which they join letters.
 */
const INVISIBLE =
  /(?![\u200c\u200d])\p{Cf}|(?<![\u0620-\u109f])[\u200c\u200d]|[\u200c\u200d](?![\u0620-\u109f])/gu

const UNPRINTABLE = / *[\p{Cc}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]+ */gu

/**
 * Cleans a text of a bank or a payer for storage: removes invisible characters, replaces other characters that are not
 * printable by spaces (PostgreSQL rejects U+0000 in a text), trims and truncates it. A payment that arrived is recorded
 * whatever its texts are, so characters that the contract refuses in a request are removed here.
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

/** Compares in constant time, so that the duration reveals neither the first difference nor the lengths. */
export function equalSecrets(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b))
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
