import type { Logger } from 'pino'
import { Fault } from '../errors.ts'
import { within } from '../within.ts'
import type { Call } from './calls.ts'
import type { ConnectionLimits } from './connections.ts'
import { GrpcCall } from './grpc-call.ts'
import { type GrpcListener, listen } from './grpc-listener.ts'
import type { CallHost, GrpcMethod } from './grpc-method.ts'
import { toGrpcMethod } from './grpc-methods.ts'
import { httpFault, rejectHttp, rejectRpc } from './grpc-reject.ts'
import { createHealth } from './health.ts'
import { Deadlines } from './http2/deadlines.ts'
import { HTTP2_LIMITS, type Http2Limits } from './http2/limits.ts'
import { createHttp2Server, type Http2Server } from './http2/server.ts'
import { reflectionMethods } from './reflection.ts'
import type { Tls } from './tls.ts'

export interface GrpcDoorOptions {
  readonly calls: readonly Call[]
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  readonly reflection: boolean
  readonly requestIds: () => string
  readonly log: Logger
  readonly limits: ConnectionLimits
  /** Undefined: plain text. */
  readonly tls?: Tls | undefined
  /** In place of our own, so that tests need neither minutes nor gigabytes. */
  readonly http2Limits?: Partial<Http2Limits>
}

export interface GrpcDoor {
  readonly port: number
  /** How many are open. */
  connections(): number
  /**
   * Health turns NOT_SERVING, new calls are refused, calls under way finish. After `drainMs`
   * streams end with UNAVAILABLE, and what is still open shortly after that is cut.
   */
  close(drainMs: number): Promise<void>
}

/** How long the last status of a stream has to reach its client. */
const FLUSH_MS = 500

/**
 * Serves the calls over gRPC, with the standard health and reflection services.
 *
 * @throws Error when the address cannot be listened at
 */
export async function openGrpcDoor(options: GrpcDoorOptions): Promise<GrpcDoor> {
  const { log } = options
  const streams = new Set<GrpcCall>()
  const services = [...new Set(options.calls.map((call) => call.service))]
  const health = createHealth(services.map((service) => service.typeName))
  const methods = [
    ...options.calls.map((call) => toGrpcMethod(call, { log, streams })),
    ...health.methods,
    ...(options.reflection ? reflectionMethods(services) : []),
  ]
  const http2 = createHttp2Server(
    { ...HTTP2_LIMITS, ...options.http2Limits },
    {
      open: createOpen(methods, { requestIds: options.requestIds, deadlines: new Deadlines() }),
      failed: (error) => log.error({ err: error, door: 'grpc' }, 'a connection failed'),
    },
  )
  const listener = await listen(options, http2.accept).catch((error: unknown) => {
    http2.stop()
    throw error
  })
  let closing: Promise<void> | undefined
  return {
    port: listener.port,
    connections: listener.connections,
    close: (drainMs) => {
      health.stopServing()
      closing ??= drain(http2, listener, streams, drainMs)
      return closing
    },
  }
}

/** Finds the method of each call. */
function createOpen(
  methods: readonly GrpcMethod[],
  host: CallHost,
): Parameters<typeof createHttp2Server>[1]['open'] {
  const known = new Map(methods.map((method) => [method.path, method]))
  return (stream, connection) => {
    const fault = httpFault(stream.head)
    if (fault !== undefined) return rejectHttp(stream, connection, fault)
    const method = known.get(stream.head.path)
    if (method === undefined) return rejectRpc(stream, connection)
    const call = new GrpcCall(stream, connection, method, host)
    if (method.requestStream === true && !call.over) method.handle(call)
    return call
  }
}

async function drain(
  http2: Http2Server,
  listener: GrpcListener,
  streams: ReadonlySet<GrpcCall>,
  drainMs: number,
): Promise<void> {
  const closed = listener.stop()
  http2.drain()
  if (!(await within(closed, drainMs))) {
    const text = 'The service is restarting; resume the stream'
    for (const stream of streams) {
      stream.abort(new Fault('unavailable', text, { retryAfterSeconds: 1 }))
    }
    // What never came to be a connection of HTTP/2 knows nothing of a drain.
    if (!(await within(closed, 2 * FLUSH_MS))) listener.cut()
  }
  http2.stop()
}
