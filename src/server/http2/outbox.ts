import type { Socket } from 'node:net'
import { FLAG, FRAME, FRAME_BYTES_MAX, FRAME_HEAD_BYTES } from './protocol.ts'

/** What a connection begins with, and what it keeps when nothing waits. */
const BUFFER_BYTES = 4_096
const KEPT_BYTES_MAX = 64 * 1024

const NONE = Buffer.alloc(0)

/**
 * The frames that a connection is to send. They are put together in one buffer, and go out as one
 * write at the end of the turn of the event loop: a write costs more than a call does otherwise.
 */
export class Outbox {
  readonly #socket: Socket
  readonly #schedule: (outbox: Outbox) => void
  readonly #sent: () => void
  #buffer = NONE
  #at = 0

  /**
   * @param schedule asked, once a turn, to call `flush` at its end
   * @param sent told when a write is over
   */
  constructor(socket: Socket, schedule: (outbox: Outbox) => void, sent: () => void) {
    this.#socket = socket
    this.#schedule = schedule
    this.#sent = sent
  }

  /** Bytes that the operating system has not taken. */
  get heldBytes(): number {
    return this.#at + this.#socket.writableLength
  }

  flush(): void {
    const length = this.#at
    if (length === 0) return
    this.#at = 0
    const socket = this.#socket
    if (!socket.writable) return
    socket.write(this.#buffer.subarray(0, length), this.#sent)
    // What was taken at once is free; otherwise the bytes have to stay as they are.
    if (socket.writableLength > 0 || this.#buffer.length > KEPT_BYTES_MAX) this.#buffer = NONE
  }

  /** Writes a frame with a part of some bytes as its payload. */
  frame(type: number, flags: number, id: number, payload: Uint8Array, start = 0, end?: number) {
    const until = end ?? payload.length
    const length = until - start
    this.reserve(FRAME_HEAD_BYTES + length)
    this.head(length, type, flags, id)
    this.bytes(payload, start, until)
  }

  /** Writes a frame whose payload is one number of 32 bits. */
  number(type: number, id: number, value: number): void {
    this.reserve(FRAME_HEAD_BYTES + 4)
    this.head(4, type, 0, id)
    this.#at = this.#buffer.writeUInt32BE(value, this.#at)
  }

  /** Writes a block of headers, in as many frames as it takes. */
  headers(id: number, block: Buffer, flags: number): void {
    if (block.length <= FRAME_BYTES_MAX) {
      this.frame(FRAME.headers, flags | FLAG.endHeaders, id, block)
      return
    }
    this.frame(FRAME.headers, flags, id, block, 0, FRAME_BYTES_MAX)
    for (let at = FRAME_BYTES_MAX; at < block.length; at += FRAME_BYTES_MAX) {
      const end = Math.min(at + FRAME_BYTES_MAX, block.length)
      const last = end === block.length ? FLAG.endHeaders : 0
      this.frame(FRAME.continuation, last, id, block, at, end)
    }
  }

  /** Makes room for what is written next by the methods below. */
  reserve(bytes: number): void {
    if (this.#at === 0) this.#schedule(this)
    const needed = this.#at + bytes
    if (needed <= this.#buffer.length) return
    const size = Math.max(BUFFER_BYTES, this.#buffer.length * 2, needed)
    const larger = Buffer.allocUnsafeSlow(size)
    this.#buffer.copy(larger, 0, 0, this.#at)
    this.#buffer = larger
  }

  head(length: number, type: number, flags: number, id: number): void {
    const buffer = this.#buffer
    const at = this.#at
    buffer[at] = length >>> 16
    buffer[at + 1] = length >>> 8
    buffer[at + 2] = length
    buffer[at + 3] = type
    buffer[at + 4] = flags
    buffer[at + 5] = id >>> 24
    buffer[at + 6] = id >>> 16
    buffer[at + 7] = id >>> 8
    buffer[at + 8] = id
    this.#at = at + FRAME_HEAD_BYTES
  }

  bytes(source: Uint8Array, start: number, end: number): void {
    const buffer = this.#buffer
    let at = this.#at
    this.#at += end - start
    if (end - start > 64) {
      buffer.set(start === 0 && end === source.length ? source : source.subarray(start, end), at)
      return
    }
    for (let from = start; from < end; from++) buffer[at++] = source[from] as number
  }

  /** A text of ASCII after its length, which is below 127 (RFC 7541, section 5.2). */
  text(value: string): void {
    const buffer = this.#buffer
    let at = this.#at
    buffer[at++] = value.length
    for (let from = 0; from < value.length; from++) buffer[at++] = value.charCodeAt(from)
    this.#at = at
  }

  /** The five bytes before a message of gRPC. */
  messageHead(length: number): void {
    const buffer = this.#buffer
    buffer[this.#at++] = 0
    this.#at = buffer.writeUInt32BE(length, this.#at)
  }
}
