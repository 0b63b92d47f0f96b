import { createHash, type KeyObject, sign, verify } from 'node:crypto'
import type { BankFields } from '../bank-fields.ts'

/** The signed fields by name. */
type SignedFields = Readonly<Record<string, string>>

/** Drops null fields. PalmPay's numbers are signed as their tokens, and lists and objects as JSON. */
export function signedTexts(fields: BankFields): SignedFields {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
}

/**
 * The `Signature` header of a request: RSA-SHA1 (PKCS#1 v1.5) over the upper-case MD5 of the
 * canonical text, in base64.
 */
export function signFields(fields: SignedFields, privateKey: KeyObject): string {
  return sign('RSA-SHA1', digestOf(fields, true), privateKey).toString('base64')
}

/**
 * Whether PalmPay signed these fields. It signs the values unchanged, but some of its products trim
 * them first, so both forms are accepted.
 *
 * @param signature as sent in the body: URL-encoded base64
 */
export function isSigned(fields: SignedFields, signature: string, publicKey: KeyObject): boolean {
  const bytes = decodeSignature(signature)
  if (bytes === undefined) return false
  return [false, true].some((trimmed) =>
    verify('RSA-SHA1', digestOf(fields, trimmed), publicKey, bytes),
  )
}

/**
 * Whether the signed text stands for only one set of fields. A `&` inside a value or a name could also end it,
 * and a text that looks like a list could have been a list: the same signature would then be valid for
 * other fields.
 */
export function isUnambiguous(fields: SignedFields): boolean {
  return Object.entries(fields).every(
    ([name, value]) => !/[&=]/.test(name) && !/&|^\s*[[{]/.test(value),
  )
}

function digestOf(fields: SignedFields, trimmed: boolean): Buffer {
  const text = canonicalText(fields, trimmed)
  return Buffer.from(createHash('md5').update(text, 'utf8').digest('hex').toUpperCase())
}

/** The canonical text: fields sorted by the code units of their names, without empty values: `a=1&b=x`. */
function canonicalText(fields: SignedFields, trimmed: boolean): string {
  return Object.keys(fields)
    .sort()
    .map((name) => [name, trimmed ? fields[name]?.trim() : fields[name]])
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${name}=${value}`)
    .join('&')
}

function decodeSignature(text: string): Buffer | undefined {
  try {
    const base64 = text.includes('%') ? decodeURIComponent(text) : text
    return /^[A-Za-z0-9+/]{1,2048}={0,2}$/.test(base64) ? Buffer.from(base64, 'base64') : undefined
  } catch {
    return undefined
  }
}
