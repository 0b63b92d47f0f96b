import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'
import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { Pool } from 'undici'

const WINDOW_BYTES = 2 ** 31 - 1
const HEAD_BYTES = 5

/** Where the gRPC server is, and who calls. */
export interface GrpcTarget {
  /** `127.0.0.1:…` */
  readonly address: string
  readonly token: string
}

/**
 * Calls of one gRPC method over a few connections whose windows never make the server wait. On node:http2, because a
 * client of grpc-js uses twice the CPU time of the server that it would measure.
 */
export function openGrpc<I extends DescMessage, O extends DescMessage>(
  { address, token }: GrpcTarget,
  method: DescMethod & { readonly input: I; readonly output: O },
  connections = 1,
) {
  const sessions = Array.from({ length: connections }, () => {
    const session = connect(`http://${address}`, { settings: { initialWindowSize: WINDOW_BYTES } })
    session.on('connect', () => session.setLocalWindowSize(WINDOW_BYTES))
    // Each of its streams reports the error.
    return session.on('error', () => undefined)
  })
  const headers = {
    ':method': 'POST',
    ':path': `/${method.parent.typeName}/${method.name}`,
    'content-type': 'application/grpc',
    te: 'trailers',
    authorization: `Bearer ${token}`,
  }
  let opened = 0
  /**
   * @param onMessage called with each message's bytes
   * @param onEnd called with the failure if there was one
   */
  const request = (
    message: MessageInitShape<I>,
    onMessage: (bytes: Buffer) => void,
    onEnd: (failure: string | undefined) => void,
  ): ClientHttp2Stream => {
    opened += 1
    const stream = (sessions[opened % connections] as ClientHttp2Session).request(headers)
    let failure: string | undefined = 'the call ended without a status'
    const onStatus = (fields: { 'grpc-status'?: unknown; 'grpc-message'?: unknown }): void => {
      const status = fields['grpc-status']
      if (status !== undefined)
        failure = status === '0' ? undefined : `grpc-status ${status}: ${fields['grpc-message']}`
    }
    // A call that fails at once has its status in the headers.
    stream.on('response', onStatus).on('trailers', onStatus)
    stream.on('data', createMessageReader(onMessage))
    stream.on('error', (error) => {
      failure = error.message
    })
    stream.on('close', () => onEnd(failure))
    const bytes = toBinary(method.input, create(method.input, message))
    const body = Buffer.alloc(HEAD_BYTES + bytes.length)
    body.writeUInt32BE(bytes.length, 1)
    body.set(bytes, HEAD_BYTES)
    stream.end(body)
    return stream
  }
  return {
    /** A unary call. @param done called with the failure, or with the response */
    call(
      message: MessageInitShape<I>,
      done: (failure: string | undefined, response?: MessageShape<O>) => void,
    ): void {
      let response: Buffer | undefined
      const onMessage = (bytes: Buffer) => {
        response = bytes
      }
      request(message, onMessage, (failure) => {
        if (failure !== undefined) done(failure)
        else if (response === undefined) done('no response')
        else done(undefined, fromBinary(method.output, response))
      })
    },
    /** A call whose response is a stream. It ends when its stream is closed. */
    stream: request,
    close(): void {
      for (const session of sessions) session.destroy()
    },
  }
}

function createMessageReader(onMessage: (bytes: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer | undefined
  return (chunk) => {
    const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    while (bytes.length - at >= HEAD_BYTES) {
      const next = at + HEAD_BYTES + bytes.readUInt32BE(at + 1)
      if (next > bytes.length) break
      onMessage(bytes.subarray(at + HEAD_BYTES, next))
      at = next
    }
    rest = at < bytes.length ? bytes.subarray(at) : undefined
  }
}

/**
 * Keep-alive connections that post JSON to one URL, one request at a time on each.
 *
 * @param authorization absent: none
 * @returns a function whose `done` is called with the failure, or with the body of a response with status 200
 */
export function openHttp(url: string, connections: number, authorization?: string) {
  const { origin, pathname: path } = new URL(url)
  const pool = new Pool(origin, { connections, pipelining: 1 })
  const headers = {
    'content-type': 'application/json',
    ...(authorization !== undefined && { authorization }),
  }
  return (body: string, done: (failure: string | undefined, body: string) => void): void => {
    let status = 0
    const chunks: Buffer[] = []
    pool.dispatch(
      { path, method: 'POST', headers, body },
      {
        // A handler must have it.
        onRequestStart: () => undefined,
        onResponseStart: (_, code) => {
          status = code
        },
        onResponseData: (_, chunk) => void chunks.push(chunk),
        onResponseEnd: () => {
          const text = Buffer.concat(chunks).toString()
          done(status === 200 ? undefined : `${status}: ${text}`, text)
        },
        onResponseError: (_, error) => done(error.message, ''),
      },
    )
  }
}
