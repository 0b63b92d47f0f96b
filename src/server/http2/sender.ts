import { encodeText } from './hpack-encoder.ts'
import type { Outbox } from './outbox.ts'
import {
  CODE,
  ConnectionError,
  FLAG,
  FRAME,
  FRAME_BYTES_MAX,
  FRAME_HEAD_BYTES,
  WINDOW_BYTES,
  WINDOW_BYTES_MAX,
} from './protocol.ts'
import type { Http2Stream } from './stream.ts'

/** Above this, what a connection has to send waits until the client has read. */
const HELD_BYTES_MAX = 64 * 1024

/** Texts that need one octet for their length. */
const SHORT = 127

export const MESSAGE_HEAD_BYTES = 5

interface SenderEvents {
  /** Our half of a stream was sent to its end. */
  ended(stream: Http2Stream): void
  /** Frames of bodies went out. */
  progressed(frames: number): void
}

/** What streams send over one connection, as its windows and the socket allow. */
export class Sender {
  readonly #outbox: Outbox
  readonly #events: SenderEvents
  /** In the order in which they are looked at. */
  readonly #waiting = new Set<Http2Stream>()
  #window = WINDOW_BYTES
  #initialWindow = WINDOW_BYTES
  /** Of all streams, what waits to be sent. */
  #waitingBytes = 0

  constructor(outbox: Outbox, events: SenderEvents) {
    this.#outbox = outbox
    this.#events = events
  }

  get initialWindow(): number {
    return this.#initialWindow
  }

  get waitingBytes(): number {
    return this.#waitingBytes
  }

  /**
   * Sends a whole answer: headers, one message, trailers.
   *
   * @param head a block of headers that lacks the value of its last field
   * @param value that value, in ASCII
   */
  answer(stream: Http2Stream, head: Buffer, value: string, message: Uint8Array, tail: Buffer) {
    const length = MESSAGE_HEAD_BYTES + message.length
    const outbox = this.#outbox
    if (
      this.#waiting.size > 0 ||
      length > stream.sendWindow ||
      length > this.#window ||
      length > FRAME_BYTES_MAX ||
      value.length >= SHORT ||
      outbox.heldBytes > HELD_BYTES_MAX
    ) {
      this.respond(stream, Buffer.concat([head, encodeText(value)]))
      const body = Buffer.allocUnsafe(length)
      body[0] = 0
      body.set(message, body.writeUInt32BE(message.length, 1))
      this.write(stream, body)
      this.end(stream, tail)
      return
    }
    const { id } = stream
    const headLength = head.length + 1 + value.length
    outbox.reserve(3 * FRAME_HEAD_BYTES + headLength + length + tail.length)
    outbox.head(headLength, FRAME.headers, FLAG.endHeaders, id)
    outbox.bytes(head, 0, head.length)
    outbox.text(value)
    outbox.head(length, FRAME.data, 0, id)
    outbox.messageHead(message.length)
    outbox.bytes(message, 0, message.length)
    outbox.head(tail.length, FRAME.headers, FLAG.endHeaders | FLAG.endStream, id)
    outbox.bytes(tail, 0, tail.length)
    stream.sendWindow -= length
    this.#window -= length
    this.#events.progressed(1)
    this.#events.ended(stream)
  }

  respond(stream: Http2Stream, head: Buffer): void {
    stream.waitingHead = head
    this.#start(stream)
  }

  /** @returns whether all went out, so that more is welcome */
  write(stream: Http2Stream, bytes: Uint8Array): boolean {
    stream.waitingBody ??= []
    stream.waitingBody.push(bytes)
    stream.waitingBytes += bytes.length
    this.#waitingBytes += bytes.length
    this.#start(stream)
    return stream.waitingBytes === 0
  }

  end(stream: Http2Stream, tail: Buffer): void {
    stream.waitingTail = tail
    this.#start(stream)
  }

  /** Drops what waits of a stream that is over. */
  forget(stream: Http2Stream): void {
    this.#waiting.delete(stream)
    this.#waitingBytes -= stream.waitingBytes
    stream.waitingBytes = 0
    stream.waitingBody = undefined
  }

  /** @throws ConnectionError when a window becomes larger than there are numbers */
  widen(bytes: number): void {
    this.#window += bytes
    if (this.#window > WINDOW_BYTES_MAX) throw tooWide()
    for (const stream of this.#waiting) {
      if (this.#window <= 0 || !this.#hasRoom()) break
      this.#continue(stream)
    }
  }

  /** @returns false when the stream's window becomes larger than there are numbers */
  widenStream(stream: Http2Stream, bytes: number): boolean {
    stream.sendWindow += bytes
    if (stream.sendWindow > WINDOW_BYTES_MAX) return false
    if (this.#waiting.has(stream)) this.#continue(stream)
    return true
  }

  /**
   * Streams begin with another window from now on, and those that are open have theirs changed by
   * as much, also to less than nothing (RFC 9113, section 6.9.2).
   *
   * @throws ConnectionError
   */
  changeInitialWindow(bytes: number, streams: Iterable<Http2Stream>): void {
    const change = bytes - this.#initialWindow
    this.#initialWindow = bytes
    for (const stream of streams) {
      stream.sendWindow += change
      if (stream.sendWindow > WINDOW_BYTES_MAX) throw tooWide()
    }
    if (change > 0) this.resume()
  }

  /** Goes on with what waits, when the socket has room again. */
  resume(): void {
    for (const stream of this.#waiting) {
      if (!this.#hasRoom()) return
      this.#continue(stream)
    }
  }

  #hasRoom(): boolean {
    return this.#outbox.heldBytes <= HELD_BYTES_MAX
  }

  #start(stream: Http2Stream): void {
    // Who waits already has its turn later.
    if (this.#waiting.has(stream)) return
    if (!this.#advance(stream)) this.#waiting.add(stream)
  }

  #continue(stream: Http2Stream): void {
    const done = this.#advance(stream)
    if (done) {
      this.#waiting.delete(stream)
      if (!stream.closed) stream.listener?.writable()
    } else if (!this.#hasRoom()) {
      // The others come first next time.
      this.#waiting.delete(stream)
      this.#waiting.add(stream)
    }
  }

  /** Sends what can be sent. @returns whether that is all */
  #advance(stream: Http2Stream): boolean {
    const outbox = this.#outbox
    if (stream.waitingHead !== undefined) {
      if (!this.#hasRoom()) return false
      outbox.headers(stream.id, stream.waitingHead, 0)
      stream.waitingHead = undefined
    }
    if (stream.waitingBytes > 0 && !this.#advanceBody(stream)) return false
    if (stream.waitingTail !== undefined) {
      if (!this.#hasRoom()) return false
      const tail = stream.waitingTail
      stream.waitingTail = undefined
      outbox.headers(stream.id, tail, FLAG.endStream)
      this.#events.ended(stream)
    }
    return true
  }

  #advanceBody(stream: Http2Stream): boolean {
    const waitingBody = stream.waitingBody ?? []
    let frames = 0
    let sent = 0
    while (sent < waitingBody.length) {
      const bytes = waitingBody[sent] as Uint8Array
      const left = bytes.length - stream.waitingFrom
      const length = Math.min(left, stream.sendWindow, this.#window, FRAME_BYTES_MAX)
      if (length <= 0 || !this.#hasRoom()) break
      const end = stream.waitingFrom + length
      this.#outbox.frame(FRAME.data, 0, stream.id, bytes, stream.waitingFrom, end)
      frames += 1
      stream.sendWindow -= length
      this.#window -= length
      stream.waitingBytes -= length
      this.#waitingBytes -= length
      stream.waitingFrom = length === left ? 0 : end
      if (length === left) sent += 1
    }
    if (sent === waitingBody.length) waitingBody.length = 0
    else if (sent > 0) waitingBody.splice(0, sent)
    if (frames > 0) this.#events.progressed(frames)
    return waitingBody.length === 0
  }
}

function tooWide(): ConnectionError {
  return new ConnectionError(CODE.flowControlError, 'a window is wider than 2^31 - 1')
}
