import { connect } from 'node:net'
import { onTestFinished, vi } from 'vitest'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { encodeHeaders } from '../../../src/server/http2/hpack-encoder.ts'
import { FRAME, PREFACE } from '../../../src/server/http2/protocol.ts'
import { frame } from '../../doors/http2-frames.ts'

export { frame }

export interface Received {
  readonly type: number
  readonly flags: number
  readonly id: number
  readonly payload: Buffer
}

/** A client that says what it is told to, and keeps what it hears. */
export interface Peer {
  send(...frames: readonly Buffer[]): void
  readonly received: readonly Received[]
  /** What of a kind came for a stream. */
  of(type: number, id?: number): readonly Received[]
  /** The bodies of a stream. */
  body(id: number): Buffer
  /** The code of the error that ended the connection, or `cut` when there was none. */
  goneAway(): Promise<number | 'cut'>
  readonly closed: Promise<void>
}

export const LOOK_UP = `/${TransactionService.typeName}/GetTransaction`

export const HEADERS = requestHeaders({})

/** A block of headers of a call; what is undefined is left out. */
export function requestHeaders(more: Readonly<Record<string, string | undefined>>): Buffer {
  const fields = {
    ':method': 'POST',
    ':scheme': 'http',
    ':path': LOOK_UP,
    ':authority': 'x',
    'content-type': 'application/grpc',
    te: 'trailers',
    ...more,
  }
  return encodeHeaders(
    Object.entries(fields).filter((pair): pair is [string, string] => pair[1] !== undefined),
  )
}

export function uint32(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [at, value] of values.entries()) bytes.writeUInt32BE(value, at * 4)
  return bytes
}

export function setting(name: number, value: number): Buffer {
  const bytes = Buffer.alloc(6)
  bytes.writeUInt16BE(name, 0)
  bytes.writeUInt32BE(value, 2)
  return bytes
}

/** A message as gRPC frames it. */
export function framed(message: Uint8Array): Buffer {
  return Buffer.concat([Buffer.of(0), uint32(message.length), message])
}

/** @param settings null: not even the preface is sent */
export function openPeer(address: string, settings: Buffer | null = Buffer.alloc(0)): Peer {
  const [host = '', port = ''] = address.split(':')
  const socket = connect(Number(port), host)
  socket.setNoDelay(true)
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => undefined)
  const received: Received[] = []
  let rest = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      const end = 9 + rest.readUIntBE(0, 3)
      const [type = 0, flags = 0] = [rest[3], rest[4]]
      received.push({ type, flags, id: rest.readUInt32BE(5), payload: rest.subarray(9, end) })
      rest = rest.subarray(end)
    }
  })
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  const of = (type: number, id?: number) =>
    received.filter((each) => each.type === type && (id === undefined || each.id === id))
  if (settings !== null) {
    socket.write(Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0, settings)]))
  }
  return {
    send: (...frames) => void socket.write(Buffer.concat(frames)),
    received,
    of,
    body: (id) => Buffer.concat(of(FRAME.data, id).map(({ payload }) => payload)),
    closed,
    async goneAway() {
      await closed
      const [last] = of(FRAME.goAway)
      return last === undefined ? 'cut' : last.payload.readUInt32BE(4)
    },
  }
}

/** Waits until something has come of a stream. */
export function came(peer: Peer, type: number, id: number, count = 1): Promise<Received> {
  return vi.waitFor(
    () => {
      const found = peer.of(type, id)[count - 1]
      if (found === undefined) throw new Error(`no frame of kind ${type} for ${id}`)
      return found
    },
    { timeout: 10_000, interval: 5 },
  )
}
