import { AnswerHead, startsAsHttp } from './answer-head.ts'
import { chunkSize } from './chunk-size.ts'
import { INCOMPLETE, INVALID, lineEnd, TOO_LONG, tokenEnd } from './line.ts'

/** Of the status line and the headers, with those of informational answers before them. */
const HEAD_MAX_BYTES = 16 * 1_024
const INFORMATIONAL_MAX = 16
/** Of what comes after the head, and of a line there. */
const BODY_READ_MAX_BYTES = 64 * 1_024
const BODY_LINE_MAX_BYTES = 1_024
const BODY_KEPT_BYTES = 4 * 1_024

const NO_BYTES = Buffer.alloc(0)
const COLON = 0x3a

/** Why an answer could not be read, as it is told to users. */
export const NOT_HTTP = 'the answer is not HTTP'
export const HEAD_TOO_LARGE = 'the headers of the answer are too large'

/** What is read next. */
type Phase =
  | 'status line'
  | 'fields'
  | 'body by length'
  | 'body until close'
  | 'chunk size'
  | 'chunk'
  | 'chunk end'
  | 'trailer'
  | 'over'

/**
 * Reads one HTTP/1.1 answer, as its bytes come. The status counts as soon as the head is whole; a
 * body that breaks off, lies or never ends changes nothing, but that the connection is not used again.
 */
export class AnswerReader {
  #phase: Phase = 'status line'
  #head = new AnswerHead()
  #informational = 0
  /** What the head, or what is read of the body, may still take. */
  #roomBytes = HEAD_MAX_BYTES
  /** A line of which a part came. */
  #partial: Buffer | undefined
  /** Of the body or the chunk. */
  #leftBytes = 0
  #kept = NO_BYTES
  #status: number | undefined
  #keptMs = 0
  #fault = ''

  /** Undefined until the head is whole. */
  get status(): number | undefined {
    return this.#status
  }

  get retryAfter(): string | undefined {
    return this.#status === undefined ? undefined : this.#head.retryAfter
  }

  /** The first 4 KiB of the body. */
  get body(): Buffer {
    return this.#kept
  }

  /** Why there is no status, in plain words; empty when there is one, or nothing is wrong yet. */
  get fault(): string {
    return this.#fault
  }

  /** When it is over: milliseconds for which the connection may be used again; 0 for never. */
  get keptMs(): number {
    return this.#keptMs
  }

  /** @returns whether the answer is over; then nothing more may be read */
  read(chunk: Buffer): boolean {
    const partial = this.#partial
    const bytes = partial === undefined ? chunk : Buffer.concat([partial, chunk])
    this.#partial = undefined
    let scanned = partial?.length ?? 0
    let at = 0
    while (at < bytes.length && this.#phase !== 'over') {
      at = this.#isInLines() ? this.#readLine(bytes, at, scanned) : this.#readBody(bytes, at)
      scanned = 0
    }
    if (this.#phase !== 'over') return false
    // What follows an answer that nobody asked for must not be taken for the next one.
    if (at < bytes.length) this.#keptMs = 0
    return true
  }

  #isInLines(): boolean {
    const phase = this.#phase
    return phase !== 'chunk' && phase !== 'body by length' && phase !== 'body until close'
  }

  /** @returns where to go on */
  #readLine(bytes: Buffer, at: number, scanned: number): number {
    if (this.#phase === 'status line' && !startsAsHttp(bytes, at)) return this.#fail(NOT_HTTP, at)
    const room =
      this.#status === undefined ? this.#roomBytes : Math.min(this.#roomBytes, BODY_LINE_MAX_BYTES)
    // Of a line that goes on, the CR may have come.
    const end = lineEnd(bytes, at + Math.max(0, scanned - 1), at + room)
    if (end === INCOMPLETE) {
      this.#partial = Buffer.from(bytes.subarray(at))
      return bytes.length
    }
    if (end === TOO_LONG) return this.#fail(HEAD_TOO_LARGE, at)
    this.#roomBytes -= end + 2 - at
    if (end === INVALID || !this.#takeLine(bytes, at, end)) return this.#fail(NOT_HTTP, at)
    return end + 2
  }

  /** @returns whether the line is what should be there */
  #takeLine(bytes: Buffer, at: number, end: number): boolean {
    switch (this.#phase) {
      case 'status line':
        this.#phase = 'fields'
        return this.#head.readStatusLine(bytes, at, end)
      case 'fields':
        return at === end ? this.#endHead() : this.#head.readField(bytes, at, end)
      case 'chunk size':
        return this.#beginChunk(chunkSize(bytes, at, end))
      case 'chunk end':
        this.#phase = 'chunk size'
        return at === end
      default:
        // Trailers are looked at, and ignored.
        if (at === end) this.#end()
        return at === end || isField(bytes, at)
    }
  }

  #endHead(): boolean {
    const head = this.#head
    if (head.isInformational) {
      this.#informational += 1
      this.#head = new AnswerHead()
      this.#phase = 'status line'
      // Nothing was asked for that one could switch to.
      return head.status !== 101 && this.#informational <= INFORMATIONAL_MAX
    }
    const framing = head.framing()
    if (framing === undefined) return false
    this.#status = head.status
    this.#roomBytes = BODY_READ_MAX_BYTES
    this.#leftBytes = head.contentLength ?? 0
    if (framing === 'none') this.#end()
    else if (framing === 'length') this.#phase = 'body by length'
    else this.#phase = framing === 'chunked' ? 'chunk size' : 'body until close'
    return true
  }

  #beginChunk(size: number | undefined): boolean {
    if (size === undefined) return false
    this.#leftBytes = size
    this.#phase = size === 0 ? 'trailer' : 'chunk'
    return true
  }

  /** @returns where to go on */
  #readBody(bytes: Buffer, at: number): number {
    const came = Math.min(bytes.length - at, this.#roomBytes)
    const length = this.#phase === 'body until close' ? came : Math.min(came, this.#leftBytes)
    this.#keep(bytes, at, at + length)
    this.#roomBytes -= length
    this.#leftBytes -= length
    if (this.#phase !== 'body until close' && this.#leftBytes === 0) {
      if (this.#phase === 'chunk') this.#phase = 'chunk end'
      else this.#end()
    } else if (this.#roomBytes === 0) this.#breakOff()
    return at + length
  }

  #keep(bytes: Buffer, from: number, to: number): void {
    const room = BODY_KEPT_BYTES - this.#kept.length
    // A copy, as what comes is a part of something larger.
    if (room > 0)
      this.#kept = Buffer.concat([this.#kept, bytes.subarray(from, Math.min(to, from + room))])
  }

  #end(): void {
    this.#phase = 'over'
    this.#keptMs = this.#head.keptMs()
  }

  #breakOff(): void {
    this.#phase = 'over'
    this.#keptMs = 0
    this.#partial = undefined
  }

  /** After the head, a fault only breaks off the body. */
  #fail(fault: string, at: number): number {
    if (this.#status === undefined) this.#fault = fault
    this.#breakOff()
    return at
  }
}

function isField(bytes: Buffer, at: number): boolean {
  const colon = tokenEnd(bytes, at)
  return colon > at && bytes[colon] === COLON
}
