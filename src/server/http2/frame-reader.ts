import { CODE, ConnectionError, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, PREFACE } from './protocol.ts'

/**
 * Takes one frame. The payload is `bytes` from `start` to `end`; the bytes stay as they are for as
 * long as they are kept.
 *
 * @throws ConnectionError
 */
export type TakeFrame = (
  type: number,
  flags: number,
  id: number,
  bytes: Buffer,
  start: number,
  end: number,
) => void

/**
 * Cuts what a client sends into frames. Frames that are whole in a chunk are read where they are;
 * at most one is ever put together from parts.
 */
export class FrameReader {
  readonly #take: TakeFrame
  /** Of the preface, how much came. */
  #greeted = 0
  /** A frame of which a part came: its head, then all of it. */
  #partial: Buffer | undefined
  #filled = 0

  constructor(take: TakeFrame) {
    this.#take = take
  }

  /** Whether the client has said that it speaks HTTP/2. */
  get greeted(): boolean {
    return this.#greeted === PREFACE.length
  }

  /** @throws ConnectionError for what is not HTTP/2, or a frame that is larger than allowed */
  read(chunk: Buffer): void {
    let at = this.greeted ? 0 : this.#readPreface(chunk)
    if (this.#partial !== undefined) at = this.#complete(this.#partial, chunk, at)
    while (chunk.length - at >= FRAME_HEAD_BYTES) {
      const end = at + FRAME_HEAD_BYTES + lengthOf(chunk, at)
      if (end > chunk.length) break
      this.#dispatch(chunk, at, end)
      at = end
    }
    if (at < chunk.length) this.#keep(chunk, at)
  }

  #readPreface(chunk: Buffer): number {
    const length = Math.min(PREFACE.length - this.#greeted, chunk.length)
    const expected = PREFACE.subarray(this.#greeted, this.#greeted + length)
    if (!chunk.subarray(0, length).equals(expected)) {
      throw new ConnectionError(CODE.protocolError, 'this is not HTTP/2')
    }
    this.#greeted += length
    return length
  }

  /** Fills up the frame that has begun. @returns where the next one begins */
  #complete(partial: Buffer, chunk: Buffer, from: number): number {
    const copied = chunk.copy(partial, this.#filled, from)
    this.#filled += copied
    const at = from + copied
    if (this.#filled < partial.length) return at
    const size = FRAME_HEAD_BYTES + lengthOf(partial, 0)
    if (partial.length === size) {
      this.#partial = undefined
      this.#dispatch(partial, 0, size)
      return at
    }
    // That was the head alone; now its length is known.
    const whole = Buffer.allocUnsafeSlow(size)
    partial.copy(whole, 0)
    this.#partial = whole
    return this.#complete(whole, chunk, at)
  }

  #keep(chunk: Buffer, from: number): void {
    const left = chunk.length - from
    const size =
      left < FRAME_HEAD_BYTES ? FRAME_HEAD_BYTES : FRAME_HEAD_BYTES + lengthOf(chunk, from)
    this.#partial = Buffer.allocUnsafeSlow(size)
    this.#filled = chunk.copy(this.#partial, 0, from)
  }

  #dispatch(bytes: Buffer, at: number, end: number): void {
    // The highest bit of the id is reserved, and ignored.
    const id =
      ((byte(bytes, at + 5) & 0x7f) << 24) |
      (byte(bytes, at + 6) << 16) |
      (byte(bytes, at + 7) << 8) |
      byte(bytes, at + 8)
    const start = at + FRAME_HEAD_BYTES
    this.#take(byte(bytes, at + 3), byte(bytes, at + 4), id, bytes, start, end)
  }
}

function lengthOf(bytes: Buffer, at: number): number {
  const length = (byte(bytes, at) << 16) | (byte(bytes, at + 1) << 8) | byte(bytes, at + 2)
  if (length > FRAME_BYTES_MAX) {
    throw new ConnectionError(CODE.frameSizeError, `a frame has ${length} bytes`)
  }
  return length
}

function byte(bytes: Buffer, at: number): number {
  return bytes[at] as number
}
