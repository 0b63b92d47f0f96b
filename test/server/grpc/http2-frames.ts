import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export const FRAME = { headers: 1, reset: 3, settings: 4, ping: 6, continuation: 9 } as const

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

/** A message of gRPC, not compressed, with its length before it. */
export function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** A client of HTTP/2 that keeps to no rule but those of frames. */
export interface RawClient {
  readonly socket: Socket
  /** Writes until the other end closes the connection. @returns how many times it wrote */
  flood(next: (round: number) => Buffer): Promise<number>
  /** Comes true when the connection is closed. */
  readonly closed: Promise<void>
}

/** @param reads whether it takes what the server sends */
export function openRaw(address: string, reads = true): RawClient {
  const [host = '', port = ''] = address.split(':')
  const socket = connect(Number(port), host)
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => undefined)
  if (reads) socket.resume()
  else socket.pause()
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.write(Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0, Buffer.alloc(0))]))
  return {
    socket,
    closed,
    async flood(next) {
      let rounds = 0
      let over = false
      void closed.then(() => {
        over = true
      })
      while (!over) {
        if (!socket.write(next(rounds++))) {
          await Promise.race([new Promise((drained) => socket.once('drain', drained)), closed])
        }
        // The other end runs in this process, and needs its turn.
        await new Promise((turn) => setImmediate(turn))
      }
      return rounds
    },
  }
}
