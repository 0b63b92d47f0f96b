import { connect, type Socket } from 'node:net'

/** A connection that makes any number of concurrent unary gRPC calls. */
export interface GrpcConnection {
  /**
   * @param message the request's bytes, at most 16,000
   * @param done called with the response's bytes, or with the text of the failure
   */
  call(message: Uint8Array, done: (response: Buffer | string) => void): void
}

interface GrpcConnectionOptions {
  /** `127.0.0.1:…` */
  readonly address: string
  /** `/package.Service/Method` */
  readonly path: string
  readonly token: string
}

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
const DATA = 0
const HEADERS = 1
const RST_STREAM = 3
const SETTINGS = 4
const PING = 6
const GOAWAY = 7
const WINDOW_UPDATE = 8
const ACK = 1
const END_STREAM = 1
const END_HEADERS = 4
const FRAME_HEAD_BYTES = 9
const MESSAGE_HEAD_BYTES = 5
const WINDOW_BYTES = 65_535
const REQUEST_BYTES_MAX = 16_000

/** How many bytes are received before the flow-control window is extended. */
const ROOM_BYTES = 1 << 30

/**
 * The part of HTTP/2 (RFC 9113) that unary calls with small messages need. A grpc-js client uses twice
 * the CPU time of the server it calls, so it would measure itself. Header fields are sent once and
 * then by index, as every client does (RFC 7541).
 */
export async function openGrpcConnection(options: GrpcConnectionOptions): Promise<GrpcConnection> {
  const socket = await open(options.address)
  const calls = new Map<number, { done: (response: Buffer | string) => void; message?: Buffer }>()
  const unsent: Buffer[] = []
  let window = WINDOW_BYTES
  let stream = -1
  let received = 0
  let broken: string | undefined

  const fail = (text: string): void => {
    broken = text
    const failed = [...calls.values()]
    calls.clear()
    for (const { done } of failed) done(text)
  }
  const end = (id: number, failure?: string): void => {
    const call = calls.get(id)
    calls.delete(id)
    // A failed call has only trailers, and no message.
    call?.done(failure ?? call.message?.subarray(MESSAGE_HEAD_BYTES) ?? 'the call failed')
  }
  const flush = (): void => {
    let first = unsent[0]
    // Flow control counts only the bodies of frames.
    while (first !== undefined && first.length - FRAME_HEAD_BYTES <= window) {
      window -= first.length - FRAME_HEAD_BYTES
      socket.write(first)
      unsent.shift()
      first = unsent[0]
    }
  }
  const receive = (type: number, flags: number, id: number, body: Buffer): void => {
    if (type === DATA) {
      received += body.length
      const call = calls.get(id)
      if (call !== undefined) {
        const part = Buffer.from(body)
        call.message = call.message === undefined ? part : Buffer.concat([call.message, part])
      }
      if (received > ROOM_BYTES / 2) {
        socket.write(frame(WINDOW_UPDATE, 0, 0, uint32(received)))
        received = 0
      }
    } else if (type === SETTINGS && (flags & ACK) === 0) socket.write(frame(SETTINGS, ACK, 0))
    else if (type === PING && (flags & ACK) === 0) socket.write(frame(PING, ACK, 0, body))
    else if (type === WINDOW_UPDATE && id === 0) {
      window += body.readUInt32BE()
      flush()
    } else if (type === RST_STREAM) end(id, 'the call was reset')
    else if (type === GOAWAY) fail(`the server went away: ${body.toString('latin1')}`)
    if ((type === DATA || type === HEADERS) && (flags & END_STREAM) !== 0) end(id)
  }
  socket.on('data', createFrameReader(receive))
  socket.on('error', (error) => fail(error.message))
  socket.on('close', () => fail('the connection was closed'))
  const headers = requestHeaders(options)
  return {
    call(message, done) {
      if (broken !== undefined) return done(broken)
      if (message.length > REQUEST_BYTES_MAX) return done('the request is too large')
      stream += 2
      calls.set(stream, { done })
      // Writes in one turn of the event loop are sent as one packet.
      if (!socket.writableCorked) {
        socket.cork()
        setImmediate(() => socket.uncork())
      }
      socket.write(frame(HEADERS, END_HEADERS, stream, stream === 1 ? headers.first : headers.next))
      const head = Buffer.concat([Buffer.of(0), uint32(message.length), message])
      unsent.push(frame(DATA, END_STREAM, stream, head))
      flush()
    },
  }
}

async function open(address: string): Promise<Socket> {
  const { hostname, port } = new URL(`http://${address}`)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await new Promise((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  // SETTINGS_INITIAL_WINDOW_SIZE (4): responses never wait for a window update.
  const settings = Buffer.concat([Buffer.of(0, 4), uint32(ROOM_BYTES)])
  socket.write(PREFACE)
  socket.write(frame(SETTINGS, 0, 0, settings))
  socket.write(frame(WINDOW_UPDATE, 0, 0, uint32(ROOM_BYTES)))
  return socket
}

function frame(type: number, flags: number, id: number, body: Uint8Array = Buffer.of()): Buffer {
  const bytes = Buffer.allocUnsafe(FRAME_HEAD_BYTES + body.length)
  bytes.writeUIntBE(body.length, 0, 3)
  bytes[3] = type
  bytes[4] = flags
  bytes.writeUInt32BE(id, 5)
  bytes.set(body, FRAME_HEAD_BYTES)
  return bytes
}

function uint32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(value)
  return bytes
}

type Receive = (type: number, flags: number, id: number, body: Buffer) => void

function createFrameReader(receive: Receive): (chunk: Buffer) => void {
  let rest: Buffer | undefined
  return (chunk) => {
    const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    while (bytes.length - at >= FRAME_HEAD_BYTES) {
      const next = at + FRAME_HEAD_BYTES + bytes.readUIntBE(at, 3)
      if (next > bytes.length) break
      const body = bytes.subarray(at + FRAME_HEAD_BYTES, next)
      receive(bytes.readUInt8(at + 3), bytes.readUInt8(at + 4), bytes.readUInt32BE(at + 5), body)
      at = next
    }
    rest = at < bytes.length ? bytes.subarray(at) : undefined
  }
}

/**
 * The header block of the first call, which makes the server index each field, and that of later
 * calls. Indexes are those of the static table; the dynamic table begins at 62.
 */
function requestHeaders({ address, path, token }: GrpcConnectionOptions) {
  const POST = 0x83
  const HTTP = 0x86
  const literal = (value: string) => {
    const bytes = Buffer.from(value, 'latin1')
    if (bytes.length > 126) throw new Error('a header value is too long')
    return [bytes.length, ...bytes]
  }
  const remember = (name: number | string, value: string) => [
    ...(typeof name === 'number' ? [0x40 | name] : [0x40, ...literal(name)]),
    ...literal(value),
  ]
  const first = [
    POST,
    HTTP,
    ...remember(4, path),
    ...remember(1, address),
    ...remember(31, 'application/grpc'),
    ...remember('te', 'trailers'),
    ...remember(23, `Bearer ${token}`),
  ]
  const next = [POST, HTTP, ...[66, 65, 64, 63, 62].map((index) => 0x80 | index)]
  return { first: Buffer.from(first), next: Buffer.from(next) }
}
