import { type GrpcStatus, RESPONSE, RPC_STATUS, statusHeaders } from './grpc-status.ts'
import type { Http2Connection } from './http2/connection.ts'
import { encodeHeaders } from './http2/hpack-encoder.ts'
import type { RequestHead } from './http2/request-head.ts'
import type { Http2Stream, StreamListener } from './http2/stream.ts'

/** Who listens to a request that was answered by its headers already. */
const NOBODY: StreamListener = {
  data: () => undefined,
  ended: () => undefined,
  writable: () => undefined,
  closed: () => undefined,
}

const CONTENT_TYPE = /^application\/grpc(\+proto)?(;|$)/

/** The HTTP status of a request that is not one of gRPC; undefined: it is. */
export function httpFault({ method, contentType = '' }: RequestHead): string | undefined {
  if (method !== 'POST') return '405'
  return CONTENT_TYPE.test(contentType) ? undefined : '415'
}

/** Answers what is not a request of gRPC. */
export function rejectHttp(
  stream: Http2Stream,
  connection: Http2Connection,
  status: string,
): StreamListener {
  const allow = status === '405' ? [['allow', 'POST'] as const] : []
  connection.sender.end(stream, encodeHeaders([[':status', status], ...allow]))
  return NOBODY
}

/** Answers a call of a method that there is not. */
export function rejectRpc(stream: Http2Stream, connection: Http2Connection): StreamListener {
  const status: GrpcStatus = RPC_STATUS.unknownMethod(stream.head.path)
  connection.sender.end(stream, encodeHeaders([...RESPONSE, ...statusHeaders(status)]))
  return NOBODY
}
