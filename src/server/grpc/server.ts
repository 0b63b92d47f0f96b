import type { DescService } from '@bufbuild/protobuf'
import {
  logVerbosity,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  setLogVerbosity,
} from '@grpc/grpc-js'
import type { Logger } from 'pino'
import { Fault } from '../../core/errors.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import type { ConnectionLimits } from '../connections.ts'
import type { Invoker } from '../rpc/invokers.ts'
import type { Tls } from '../tls.ts'
import { createGrpcConnections, GRPC_LIMITS, type GrpcLimits } from './connections.ts'
import { type GrpcListener, listen, type Proxies } from './listener.ts'
import { type MethodHost, toHandler, toMethodDefinition } from './methods.ts'
import { addHealth, addReflection, REFLECTION_PATHS } from './standard-services.ts'
import { type MethodTraits, type StreamWatch, watchStreams } from './watch-streams.ts'

export interface GrpcServerOptions {
  readonly invokers: readonly Invoker[]
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** Whether other processes listen on the same port. */
  readonly reusePort?: boolean
  readonly reflection: boolean
  readonly requestIds: () => string
  readonly log: Logger
  readonly limits: ConnectionLimits
  /** Undefined: no TLS. */
  readonly tls?: Tls | undefined
  /** The proxies that name their clients by the PROXY protocol; undefined: there are none. */
  readonly proxies?: Proxies | undefined
  /** Overrides for tests, which have neither minutes nor gigabytes. */
  readonly grpcLimits?: Partial<GrpcLimits>
}

export interface GrpcServer {
  readonly port: number
  /** The number of open connections. */
  connections(): number
  /** Reports NOT_SERVING, and goes on serving. */
  announceStop(): void
  /**
   * Asks clients to leave (GOAWAY), refuses new calls and lets calls in progress finish. After `drainMs`
   * it ends streams with UNAVAILABLE, and shortly after closes what is still open.
   *
   * @returns how many streams it ended, and connections that it closed with calls in progress
   */
  close(drainMs: number): Promise<number>
}

/** How long the status of a stream has to reach its client. */
const FLUSH_MS = 500

/** In MiB. An HTTP/2 session that holds more accepts no new streams. */
const SESSION_MEMORY_MIB = 32

/**
 * Serves the methods over gRPC, with the standard health and reflection services. By grpc-js, because it is official and
 * maintained: a stack of our own was three times as fast for a look-up, but only we would notice its flaws in HTTP/2.
 *
 * @throws Error when the server cannot listen at the address
 */
export async function openGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  // grpc-js prints headers that it cannot read, and such a header may be a key.
  setLogVerbosity(logVerbosity.NONE)
  const limits = { ...GRPC_LIMITS, ...options.grpcLimits }
  const server = new Server(toServerOptions(limits))
  const connections = createGrpcConnections(limits)
  const watch = watchStreams(connections, traitsOf(options.invokers), limits)
  const host: MethodHost = {
    requestIds: options.requestIds,
    log: options.log,
    connections,
    streams: new Set(),
    watch,
    streamStallMs: limits.streamStallMs,
  }
  const services = addServices(server, options.invokers, host)
  const { openMessageBytesMax } = limits
  const names = services.map((service) => service.typeName)
  const health = addHealth(server, names, openMessageBytesMax)
  if (options.reflection) addReflection(server, services, openMessageBytesMax)
  // Inflow accepts the connections itself, to bound them and to reload certificates.
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const { proxyHeaderMs } = limits
  const listener = await listen({ ...options, proxyHeaderMs }, (socket, identity, address) => {
    // The client has disconnected.
    if (socket.destroyed) return
    connections.add(socket, identity, address)
    injector.injectConnection(socket)
  }).catch((error: unknown) => {
    watch.stop()
    throw error
  })
  let closing: Promise<number> | undefined
  return {
    port: listener.port,
    connections: listener.connections,
    announceStop: health.announceStop,
    close: (drainMs) => {
      health.announceStop()
      health.endWatches()
      closing ??= drain({ server, listener, watch }, host, drainMs)
      return closing
    },
  }
}

function toServerOptions(limits: GrpcLimits): ConstructorParameters<typeof Server>[0] {
  return {
    'grpc.max_receive_message_length': limits.messageBytesMax,
    'grpc.max_concurrent_streams': limits.streamsPerConnectionMax,
    'grpc.keepalive_time_ms': limits.keepaliveMs,
    'grpc.keepalive_timeout_ms': limits.keepaliveTimeoutMs,
    'grpc.max_connection_idle_ms': limits.idleMs,
    'grpc.max_connection_age_ms': limits.connectionAgeMs,
    'grpc.max_connection_age_grace_ms': limits.connectionAgeGraceMs,
    // By default grpc-js removes Node's limit of 10 MiB.
    'grpc-node.max_session_memory': SESSION_MEMORY_MIB,
    // channelz statistics cost time on every message, and nothing reads them.
    'grpc.enable_channelz': 0,
    interceptors: [oneWrite],
  }
}

function traitsOf(invokers: readonly Invoker[]): ReadonlyMap<string, MethodTraits> {
  const own = invokers.map(({ service, method }): [string, MethodTraits] => [
    `/${service.typeName}/${method.name}`,
    { kind: method.methodKind === 'unary' ? 'unary' : 'stream', open: false },
  ])
  return new Map<string, MethodTraits>([
    ...own,
    ['/grpc.health.v1.Health/Watch', { kind: 'stream', open: true }],
    ...REFLECTION_PATHS.map((path): [string, MethodTraits] => [
      path,
      { kind: 'reflection', open: true },
    ]),
  ])
}

function addServices(
  server: Server,
  invokers: readonly Invoker[],
  host: MethodHost,
): DescService[] {
  const services = [...new Set(invokers.map((invoker) => invoker.service))]
  for (const service of services) {
    const own = invokers.filter((invoker) => invoker.service === service)
    server.addService(
      Object.fromEntries(own.map((call) => [call.method.name, toMethodDefinition(call)])),
      Object.fromEntries(own.map((call) => [call.method.name, toHandler(call, host)])),
    )
  }
  return services
}

interface Parts {
  readonly server: Server
  readonly listener: GrpcListener
  readonly watch: StreamWatch
}

async function drain(
  { server, listener, watch }: Parts,
  { streams }: MethodHost,
  drainMs: number,
): Promise<number> {
  const closed = listener.stop()
  server.tryShutdown(() => undefined)
  let cut = 0
  if (!(await withTimeout(closed, drainMs))) {
    cut = streams.size
    const text = 'The service is restarting; resume the stream'
    for (const stream of streams) {
      stream.abort(new Fault('unavailable', text, { retryAfterSeconds: 1 }))
    }
    if (!(await withTimeout(closed, FLUSH_MS))) {
      cut += listener.connections()
      listener.cut()
    }
  }
  watch.stop()
  return cut
}

/**
 * Sends the message and the status of a unary response in one write. Without it, grpc-js sends the
 * status only after the message has left the process: a second write, one turn of the event loop
 * later.
 */
const oneWrite: ServerInterceptor = (method, call) =>
  method.requestStream || method.responseStream
    ? (call as ServerInterceptingCall)
    : new OneWriteCall(call)

class OneWriteCall extends ServerInterceptingCall {
  override sendMessage(message: unknown, sent: () => void): void {
    super.sendMessage(message, () => undefined)
    sent()
  }
}
