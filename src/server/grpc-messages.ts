/** RecordPayments takes 1,000 payments of at most some 3 KB each. */
export const MESSAGE_BYTES_MAX = 4 * 1024 * 1024

/** Before each message: whether it is compressed, and its length. */
const HEAD_BYTES = 5

const FIRST_BYTES = 16_384

/** Told of each message: the octet before its length, and its bytes. */
export type TakeMessage = (flag: number, message: Buffer) => void

/** A message is longer than we take. */
export class MessageTooLarge extends Error {}

/** Puts messages together from the parts of a body, and grows with what came, not with what is told. */
export class MessageReader {
  readonly #head = Buffer.allocUnsafe(HEAD_BYTES)
  #headBytes = 0
  #body: Buffer | undefined
  #bodyBytes = 0

  /**
   * @param bytes the part, from `start` to `end`
   * @throws MessageTooLarge
   */
  read(bytes: Buffer, start: number, end: number, take: TakeMessage): void {
    let at = start
    for (;;) {
      if (this.#headBytes < HEAD_BYTES) {
        const copied = bytes.copy(this.#head, this.#headBytes, at, end)
        this.#headBytes += copied
        at += copied
        if (this.#headBytes < HEAD_BYTES) return
      }
      const length = this.#head.readUInt32BE(1)
      if (length > MESSAGE_BYTES_MAX) throw new MessageTooLarge(`${length}`)
      const flag = this.#head[0] as number
      if (this.#body === undefined && end - at >= length) {
        this.#headBytes = 0
        take(flag, bytes.subarray(at, at + length))
        at += length
        continue
      }
      const copied = Math.min(length - this.#bodyBytes, end - at)
      const body = this.#room(length, this.#bodyBytes + copied)
      bytes.copy(body, this.#bodyBytes, at, at + copied)
      this.#bodyBytes += copied
      at += copied
      if (this.#bodyBytes < length) return
      this.#headBytes = 0
      this.#bodyBytes = 0
      this.#body = undefined
      take(flag, body.subarray(0, length))
    }
  }

  #room(length: number, needed: number): Buffer {
    const body = this.#body
    if (body !== undefined && body.length >= needed) return body
    const larger = Buffer.allocUnsafeSlow(Math.min(length, Math.max(FIRST_BYTES, needed * 2)))
    body?.copy(larger, 0, 0, this.#bodyBytes)
    this.#body = larger
    return larger
  }
}

/** A message with what comes before it, as it is sent. */
export function frameMessage(message: Uint8Array): Buffer {
  // Memory of its own: a part of Node's pool would keep the 64 KiB around it for as long.
  const framed = Buffer.allocUnsafeSlow(HEAD_BYTES + message.length)
  framed[0] = 0
  framed.set(message, framed.writeUInt32BE(message.length, 1))
  return framed
}

/** The message of one part of a body, when it holds just that; the usual case. */
export function onlyMessage(bytes: Buffer, start: number, end: number): Buffer | undefined {
  if (end - start < HEAD_BYTES || bytes.readUInt32BE(start + 1) !== end - start - HEAD_BYTES) {
    return undefined
  }
  return bytes.subarray(start + HEAD_BYTES, end)
}
