import { isBlank, isName, tokenEnd } from './line.ts'

const COLON = 0x3a
const SPACE = 0x20
const ZERO = 0x30

/** Beyond it, numbers are not exact. */
const LENGTH_DIGITS_MAX = 15

/** How long a connection is kept when the receiver does not say, and at most. As undici has it. */
const KEPT_DEFAULT_MS = 4_000
const KEPT_MAX_MS = 600_000
/** So much before the receiver closes a connection, it is not used any more. */
const KEPT_MARGIN_MS = 2_000

/** Where the body of an answer ends. */
type Framing = 'none' | 'length' | 'chunked' | 'close'

/**
 * The status line and the headers of one answer, after RFC 9112. Names and values are looked at
 * where they lie; of the headers, those five that matter here are read.
 */
export class AnswerHead {
  status = 0
  /** Undefined as well when there are several. */
  retryAfter: string | undefined
  contentLength: number | undefined
  #retryAfters = 0
  #minor = 1
  #transferEncoding: string | undefined
  #connection = ''
  #keepAlive = ''

  /** @returns whether it is a status line */
  readStatusLine(bytes: Buffer, at: number, end: number): boolean {
    if (end - at < 12 || !startsAsHttp(bytes, at) || bytes[at + 8] !== SPACE) return false
    // Some leave out the space before a reason that they do not give.
    if (end - at > 12 && bytes[at + 12] !== SPACE) return false
    const minor = digitsAt(bytes, at + 7, at + 8)
    const status = digitsAt(bytes, at + 9, at + 12)
    if (minor === undefined || status === undefined || status < 100) return false
    this.#minor = minor
    this.status = status
    return true
  }

  /** @returns whether it is a header */
  readField(bytes: Buffer, at: number, end: number): boolean {
    const colon = tokenEnd(bytes, at)
    if (colon === at || bytes[colon] !== COLON) return false
    const length = colon - at
    if (length === 14 && isName(bytes, at, 'content-length')) {
      return this.#readContentLength(bytes, colon + 1, end)
    }
    if (length === 10 && isName(bytes, at, 'connection')) {
      this.#connection += `,${textAt(bytes, colon + 1, end)}`
    } else if (length === 10 && isName(bytes, at, 'keep-alive')) {
      this.#keepAlive += `,${textAt(bytes, colon + 1, end)}`
    } else if (length === 11 && isName(bytes, at, 'retry-after')) {
      this.#retryAfters += 1
      this.retryAfter = this.#retryAfters === 1 ? textAt(bytes, colon + 1, end) : undefined
    } else if (length === 17 && isName(bytes, at, 'transfer-encoding')) {
      const before = this.#transferEncoding
      const value = textAt(bytes, colon + 1, end)
      this.#transferEncoding = before === undefined ? value : `${before},${value}`
    }
    return true
  }

  /** An informational answer, which comes before the answer. */
  get isInformational(): boolean {
    return this.status < 200
  }

  /** RFC 9112, 6.3. @returns undefined when the headers contradict each other */
  framing(): Framing | undefined {
    const encoding = this.#transferEncoding
    if (encoding !== undefined && this.contentLength !== undefined) return undefined
    if (this.status === 204 || this.status === 304) return 'none'
    if (encoding !== undefined) return framingOf(encoding)
    if (this.contentLength === undefined) return 'close'
    return this.contentLength === 0 ? 'none' : 'length'
  }

  /** @returns milliseconds for which the connection may be used again; 0 when it may not be */
  keptMs(): number {
    if (this.#minor === 0 || hasClose(this.#connection)) return 0
    if (this.status === 204 || this.status === 304) {
      // There should be no body, but there may be one, which would be taken for the next answer.
      if (this.#transferEncoding !== undefined || (this.contentLength ?? 0) > 0) return 0
    }
    const seconds = /timeout=(\d+)/.exec(this.#keepAlive)?.[1]
    if (seconds === undefined) return KEPT_DEFAULT_MS
    return Math.max(0, Math.min(Number(seconds) * 1_000 - KEPT_MARGIN_MS, KEPT_MAX_MS))
  }

  #readContentLength(bytes: Buffer, at: number, end: number): boolean {
    const [from, to] = trimmed(bytes, at, end)
    const length = to - from > LENGTH_DIGITS_MAX ? undefined : digitsAt(bytes, from, to)
    if (length === undefined) return false
    if (this.contentLength !== undefined && this.contentLength !== length) return false
    this.contentLength = length
    return true
  }
}

/** @returns whether the bytes, as far as there are any, begin with "HTTP/1." */
export function startsAsHttp(bytes: Buffer, at: number): boolean {
  const start = 'HTTP/1.'
  const length = Math.min(start.length, bytes.length - at)
  for (let i = 0; i < length; i++) {
    if (bytes[at + i] !== start.charCodeAt(i)) return false
  }
  return true
}

/** "chunked" is applied once and last. What ends with another coding ends with the connection. */
function framingOf(transferEncoding: string): Framing | undefined {
  const codings = transferEncoding.toLowerCase().split(',')
  const chunked = codings.findIndex((coding) => coding.trim() === 'chunked')
  if (chunked === -1) return 'close'
  return chunked === codings.length - 1 ? 'chunked' : undefined
}

function hasClose(connection: string): boolean {
  if (connection === '' || connection === ',keep-alive') return false
  return connection
    .toLowerCase()
    .split(',')
    .some((option) => option.trim() === 'close')
}

function textAt(bytes: Buffer, at: number, end: number): string {
  const [from, to] = trimmed(bytes, at, end)
  return bytes.toString('latin1', from, to)
}

function trimmed(bytes: Buffer, at: number, end: number): readonly [number, number] {
  let from = at
  let to = end
  while (from < to && isBlank(bytes[from])) from += 1
  while (to > from && isBlank(bytes[to - 1])) to -= 1
  return [from, to]
}

/** @returns undefined for anything but digits */
function digitsAt(bytes: Buffer, from: number, to: number): number | undefined {
  if (from >= to) return undefined
  let value = 0
  for (let at = from; at < to; at++) {
    const digit = (bytes[at] ?? 0) - ZERO
    if (digit < 0 || digit > 9) return undefined
    value = value * 10 + digit
  }
  return value
}
