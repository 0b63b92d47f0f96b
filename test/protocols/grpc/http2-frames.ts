import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export const FRAME = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  ping: 6,
  windowUpdate: 8,
  continuation: 9,
} as const

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/** One frame of HTTP/2 (RFC 9113, section 4.1). */
export function frame(type: number, flags: number, streamId: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(streamId, 5)
  return Buffer.concat([head, payload])
}

/** HPACK: literals that are not indexed, with lengths below 127. */
export function literals(headers: Readonly<Record<string, string>>): Buffer {
  const parts = Object.entries(headers).flatMap(([name, value]) => [
    Buffer.of(0, name.length),
    Buffer.from(name),
    Buffer.of(value.length),
    Buffer.from(value),
  ])
  return Buffer.concat(parts)
}

/** A message of gRPC, not compressed, with its length before it. */
export function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** A client of HTTP/2 that keeps to no rule but those of frames. */
export interface RawClient {
  readonly socket: Socket
  /**
   * Writes until the other end closes the connection, or until so much was written.
   *
   * @returns how many times it wrote
   */
  flood(next: (round: number) => Buffer, bytesMax?: number): Promise<number>
  /** Comes true when the other end has answered what was sent before, or has closed the connection. */
  settle(): Promise<void>
  /** Comes true when the connection is closed. */
  readonly closed: Promise<void>
}

/** What is sent in a PING to find out that all before it was read. */
const MARK = Buffer.from('settled?')

/**
 * @param reads whether it takes what the server sends
 * @param settings null: not even the preface is sent
 */
export function openRaw(
  address: string,
  reads = true,
  settings: Buffer | null = Buffer.alloc(0),
): RawClient {
  const [host = '', port = ''] = address.split(':')
  const socket = connect(Number(port), host)
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => undefined)
  if (reads) socket.resume()
  else socket.pause()
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  if (settings !== null) {
    socket.write(Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0, settings)]))
  }
  return {
    socket,
    closed,
    async flood(next, bytesMax = Number.POSITIVE_INFINITY) {
      let rounds = 0
      let bytes = 0
      let over = false
      void closed.then(() => {
        over = true
      })
      while (!over && bytes < bytesMax) {
        const chunk = next(rounds++)
        bytes += chunk.length
        if (!socket.write(chunk)) {
          await Promise.race([new Promise((drained) => socket.once('drain', drained)), closed])
        }
        // The other end may run in this process, and needs its turn.
        await new Promise((turn) => setImmediate(turn))
      }
      return rounds
    },
    async settle() {
      const answered = new Promise<void>((resolve) => {
        let tail = Buffer.alloc(0)
        socket.on('data', (chunk: Buffer) => {
          tail = Buffer.concat([tail, chunk]).subarray(-MARK.length - chunk.length)
          if (tail.includes(MARK)) resolve()
        })
      })
      socket.write(frame(FRAME.ping, 0, 0, MARK))
      await Promise.race([answered, closed])
    },
  }
}
