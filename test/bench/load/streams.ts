import { type ClientHttp2Session, connect } from 'node:http2'

/** One server-streaming gRPC call. */
export interface Stream {
  /** Ends it from our side. */
  cancel(): void
}

/** Connections with many streams each. Their windows never make the server wait. */
export interface StreamSource {
  /**
   * @param onMessage called with every message's bytes
   * @param onEnd called when the stream has ended, with the failure if there was one
   */
  open(onMessage: (bytes: Buffer) => void, onEnd: (failure: string | undefined) => void): Stream
  close(): void
}

interface StreamSourceOptions {
  /** `127.0.0.1:…` */
  readonly address: string
  /** `/package.Service/Method` */
  readonly path: string
  readonly token: string
  /** The one request of each call. */
  readonly request: Uint8Array
  readonly connections: number
}

const ROOM_BYTES = 2 ** 31 - 1
const MESSAGE_HEAD_BYTES = 5

export function openStreams(options: StreamSourceOptions): StreamSource {
  const { address, path, token, request, connections } = options
  const sessions: ClientHttp2Session[] = Array.from({ length: connections }, () => {
    const session = connect(`http://${address}`, { settings: { initialWindowSize: ROOM_BYTES } })
    session.on('connect', () => session.setLocalWindowSize(ROOM_BYTES))
    session.on('error', () => undefined)
    return session
  })
  const body = Buffer.alloc(MESSAGE_HEAD_BYTES + request.length)
  body.writeUInt32BE(request.length, 1)
  body.set(request, MESSAGE_HEAD_BYTES)
  let opened = 0
  return {
    open(onMessage, onEnd) {
      opened += 1
      const session = sessions[opened % sessions.length] as ClientHttp2Session
      const stream = session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        te: 'trailers',
        authorization: `Bearer ${token}`,
      })
      let failure: string | undefined
      stream.on('data', createMessageReader(onMessage))
      stream.on('trailers', (trailers) => {
        if (trailers['grpc-status'] !== '0') failure = `grpc-status ${trailers['grpc-status']}`
      })
      stream.on('error', (error) => {
        failure = error.message
      })
      stream.on('close', () => onEnd(failure))
      stream.end(body)
      return { cancel: () => stream.close(8) }
    },
    close() {
      for (const session of sessions) session.destroy()
    },
  }
}

function createMessageReader(onMessage: (bytes: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer | undefined
  return (chunk) => {
    const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    while (bytes.length - at >= MESSAGE_HEAD_BYTES) {
      const next = at + MESSAGE_HEAD_BYTES + bytes.readUInt32BE(at + 1)
      if (next > bytes.length) break
      onMessage(bytes.subarray(at + MESSAGE_HEAD_BYTES, next))
      at = next
    }
    rest = at < bytes.length ? bytes.subarray(at) : undefined
  }
}
