import { type HeaderList, HpackDecoder } from './hpack-decoder.ts'
import { BLOCK_BYTES_MAX, BLOCK_FRAMES_MAX } from './limits.ts'
import { CODE, ConnectionError, FLAG, protocolFault, sizeFault, unpadded } from './protocol.ts'

/** A block of headers of which more is to come. */
interface Block {
  readonly id: number
  readonly ended: boolean
  readonly startedMs: number
  readonly parts: Buffer[]
  bytes: number
}

/** Told of the headers of a stream, and whether they are all of it. */
type TakeHeaders = (id: number, ended: boolean, fields: HeaderList) => void

/** Puts blocks of headers together from their frames (RFC 9113, sections 4.3, 6.2 and 6.10). */
export class HeaderBlocks {
  readonly #take: TakeHeaders
  readonly #decoder = new HpackDecoder()
  #open: Block | undefined

  constructor(take: TakeHeaders) {
    this.#take = take
  }

  /** The stream of the block of which more is to come, before any other frame may. */
  get openId(): number | undefined {
    return this.#open?.id
  }

  isOpenSince(ms: number): boolean {
    return this.#open !== undefined && this.#open.startedMs < ms
  }

  /** @throws ConnectionError */
  begin(flags: number, id: number, bytes: Buffer, start: number, end: number, nowMs: number): void {
    if ((id & 1) === 0) throw protocolFault('clients begin streams with odd numbers')
    let at = start
    let until = end
    if ((flags & FLAG.padded) !== 0) {
      until = unpadded(bytes, start, end)
      at += 1
    }
    // Priorities are given up by the standard: they are read over (section 5.3.2).
    if ((flags & FLAG.priority) !== 0) at += 5
    if (at > until) throw sizeFault('HEADERS are too short')
    const ended = (flags & FLAG.endStream) !== 0
    if ((flags & FLAG.endHeaders) !== 0) {
      this.#take(id, ended, this.#decoder.decode(bytes, at, until))
      return
    }
    const parts = [Buffer.from(bytes.subarray(at, until))]
    this.#open = { id, ended, startedMs: nowMs, parts, bytes: until - at }
  }

  /** @throws ConnectionError, also when there are more parts, or longer ones, than we take */
  continue(flags: number, bytes: Buffer, start: number, end: number): void {
    const block = this.#open
    if (block === undefined) throw protocolFault('CONTINUATION of nothing')
    block.bytes += end - start
    block.parts.push(Buffer.from(bytes.subarray(start, end)))
    if (block.bytes > BLOCK_BYTES_MAX || block.parts.length > BLOCK_FRAMES_MAX) {
      throw new ConnectionError(CODE.enhanceYourCalm, 'headers without end')
    }
    if ((flags & FLAG.endHeaders) === 0) return
    this.#open = undefined
    const whole = Buffer.concat(block.parts)
    this.#take(block.id, block.ended, this.#decoder.decode(whole, 0, whole.length))
  }
}
