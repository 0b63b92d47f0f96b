import { randomFillSync } from 'node:crypto'

/** Crockford's base 32 in lower case: without i, l, o and u, which are easy to misread. */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'

/** The alphabet of references, which people read aloud: no 0/O, 1/I/L, 2/Z, 5/S, 8/B, U/V. */
const UNAMBIGUOUS = '34679ACDEFGHJKMNPQRTWXY'

const pool = Buffer.allocUnsafe(4096)
let used = pool.length

/** Takes random bytes from a pool, because a system call for each id would cost more than the rest of the id. */
function randomBytesOf(length: number): Buffer {
  if (used + length > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += length
  return pool.subarray(used - length, used)
}

/**
 * Makes an identifier: the prefix, ten characters of time, and sixteen random characters. Identifiers of
 * later milliseconds sort after earlier ones, which keeps indexes on them dense.
 *
 * @param prefix the kind: "txn", "acc", …
 * @param nowMs milliseconds since the Unix epoch
 */
export function newId(prefix: string, nowMs: number): string {
  let text = timeText(nowMs)
  const random = randomBytesOf(16)
  for (let i = 0; i < 16; i++) text += ALPHABET[(random[i] as number) & 31]
  return `${prefix}_${text}`
}

/**
 * A text that sorts before identifiers made at a time or later, and after all earlier identifiers. A time before 1970 counts as
 * its beginning.
 */
export function firstIdAt(prefix: string, atMs: number): string {
  return `${prefix}_${timeText(Math.max(0, Math.floor(atMs)))}`
}

function timeText(atMs: number): string {
  let time = atMs
  let text = ''
  for (let i = 0; i < 10; i++) {
    text = ALPHABET[time % 32] + text
    time = Math.floor(time / 32)
  }
  return text
}

/** Makes an account reference: `R-` and 20 characters (90 random bits). */
export function newReference(): string {
  let text = 'R-'
  while (text.length < 22) {
    // Bytes above the last whole multiple are discarded, because they would favour some characters.
    const byte = randomBytesOf(1)[0] as number
    if (byte < 253) text += UNAMBIGUOUS[byte % 23]
  }
  return text
}

const REFERENCE = new RegExp(`^R-[${UNAMBIGUOUS}]{16,}$`)

/** Whether a text has the form of an account reference. */
export function isReference(text: string): boolean {
  return REFERENCE.test(text)
}

/** Makes ids of requests, `req_…`: unique, and cheap enough for every response. */
export function createRequestIds(): () => string {
  const instance = newId('req', Date.now()).slice(0, 22)
  let count = 0
  return () => {
    count += 1
    return `${instance}${count.toString(36).padStart(6, '0')}`
  }
}
