import { type AddressInfo, createServer, type Server as NetServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { DescService } from '@bufbuild/protobuf'
import {
  logVerbosity,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  setLogVerbosity,
} from '@grpc/grpc-js'
import { withTimeout } from '../../core/concurrency.ts'
import { Fault } from '../../core/errors.ts'
import {
  boundConnections,
  type ConnectionLimits,
  type Connections,
  LISTEN_BACKLOG,
  listenFault,
  type ServerOptions,
} from '../connections.ts'
import type { Invoker } from '../invokers.ts'
import type { Tls } from '../tls.ts'
import {
  type ClientIdentity,
  createGrpcConnections,
  GRPC_LIMITS,
  type GrpcLimits,
  identityOf,
} from './connections.ts'
import { type MethodHost, toHandler, toMethodDefinition } from './methods.ts'
import { parseProxyHeader } from './proxy-header.ts'
import { addHealth, addReflection, REFLECTION_PATHS } from './standard-services.ts'
import { type MethodTraits, type StreamWatch, watchStreams } from './watch-streams.ts'

interface GrpcServerOptions extends ServerOptions {
  readonly invokers: readonly Invoker[]
  readonly reflection: boolean
  /** Whether an address is of a proxy that names its clients by the PROXY protocol; undefined: no proxies. */
  readonly isProxy?: IsProxy | undefined
  /** Overrides for tests: the defaults would take minutes and gigabytes. */
  readonly grpcLimits?: Partial<GrpcLimits>
}

export interface GrpcServer {
  readonly port: number
  /** The number of open connections. */
  connections(): number
  /** Reports NOT_SERVING to health checks, and continues to serve. */
  announceStop(): void
  /**
   * Asks clients to leave (GOAWAY), refuses new calls and lets calls in progress finish. After `drainMs`
   * it ends streams with UNAVAILABLE, and shortly after that closes the remaining connections.
   *
   * @returns how many streams it ended, plus how many connections it closed with calls in progress
   */
  close(drainMs: number): Promise<number>
}

/** How long the status of a stream may take to reach its client. */
const FLUSH_MS = 500

/** The memory limit of an HTTP/2 session. A session that uses more accepts no new streams. */
const SESSION_MEMORY_MIB = 32

/**
 * Serves the methods over gRPC, with the standard health and reflection services. It uses grpc-js, which is official and
 * maintained: our own HTTP/2 code was three times as fast for a look-up, but only we would find its bugs.
 *
 * @throws Error when the server cannot listen at the address
 */
export async function openGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  // grpc-js prints headers that it cannot parse, and such a header may contain a key.
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
 * Sends the message and the status of a unary response in one write. Without this interceptor, grpc-js sends the
 * status in a second write, one turn of the event loop after the message.
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

/** The time-out of a TLS handshake. */
const HANDSHAKE_MS = 10_000

const SOCKET = { noDelay: true } as const

interface GrpcListenerOptions extends GrpcServerOptions {
  /** How long a proxy may take to name its client, in milliseconds. */
  readonly proxyHeaderMs: number
}

type IsProxy = (address: string) => boolean

/**
 * Receives a connection and the client's address, with its identity if the server asks for
 * certificates.
 */
type Accept = (socket: Socket, identity: ClientIdentity | undefined, address: string) => void

interface GrpcListener {
  readonly port: number
  connections(): number
  /** Accepts no new connections. Resolves when all connections have closed. */
  stop(): Promise<void>
  /** Closes the remaining connections. */
  cut(): void
}

/**
 * Accepts the connections of the gRPC server, within bounds, and after the TLS handshake if TLS is on.
 * A reload of the certificates does not affect open connections.
 *
 * @throws ConfigError when the server cannot listen at the address
 */
async function listen(options: GrpcListenerOptions, accept: Accept): Promise<GrpcListener> {
  const { host, port: wanted, reusePort = false, limits, tls, isProxy } = options
  const { server, connections } =
    isProxy === undefined
      ? openDirect(tls, limits, accept)
      : openProxied({ ...options, isProxy }, accept)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(listenFault('GRPC_PORT', options, error)))
    server.listen({ host, port: wanted, reusePort, backlog: LISTEN_BACKLOG }, () => resolve())
  })
  // An error of accept, such as too few file descriptors, must not affect other connections.
  server.on('error', () => undefined)
  const { port } = server.address() as AddressInfo
  return {
    port,
    connections: connections.count,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
    cut: () => connections.destroyAll(),
  }
}

interface Opened {
  readonly server: NetServer
  readonly connections: Connections
}

function openDirect(tls: Tls | undefined, limits: ConnectionLimits, accept: Accept): Opened {
  const take = (socket: Socket, identity?: ClientIdentity) =>
    accept(socket, identity, socket.remoteAddress ?? '')
  const server = tls ? createSecure(tls, take) : createServer(SOCKET, (socket) => take(socket))
  return { server, connections: boundConnections(server, limits) }
}

/**
 * Accepts connections of trusted proxies, which begin with a header of the PROXY protocol, and direct connections of other
 * peers, in which no header is looked for.
 */
function openProxied(
  { tls, limits, isProxy, proxyHeaderMs }: GrpcListenerOptions & { readonly isProxy: IsProxy },
  accept: Accept,
): Opened {
  /** The addresses of clients behind proxies, by the proxy's address and port. */
  const clients = new Map<string, string>()
  const secure =
    tls &&
    createSecure(tls, (socket, identity) => {
      const client = clients.get(peerOf(socket)) ?? socket.remoteAddress ?? ''
      accept(socket, identity, client)
    })
  const take = (socket: Socket, address: string): void => {
    if (socket.destroyed || !connections.admit(socket, address)) return
    if (secure === undefined) {
      accept(socket, undefined, address)
      return
    }
    const peer = peerOf(socket)
    clients.set(peer, address)
    socket.once('close', () => clients.delete(peer))
    secure.emit('connection', socket)
  }
  const server = createServer(SOCKET, (socket) => {
    const { remoteAddress = '' } = socket
    if (!isProxy(remoteAddress)) take(socket, remoteAddress)
    else readProxyHeader(socket, proxyHeaderMs, (address) => take(socket, address))
  })
  const connections = boundConnections(server, limits, false)
  return { server, connections }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}

function createSecure(
  tls: Tls,
  take: (socket: Socket, identity: ClientIdentity | undefined) => void,
): NetServer {
  const options = { ...SOCKET, ALPNProtocols: ['h2'], handshakeTimeout: HANDSHAKE_MS }
  const server = createTlsServer({ ...tls.mutual(), ...options }, (socket) => {
    // Ignores errors until an HTTP/2 session handles them.
    socket.on('error', () => undefined)
    // Once per connection: parsing a certificate takes as long as handling a call.
    const identity = socket.authorized ? identityOf(socket.getPeerCertificate()) : undefined
    // A client without ALPN is assumed to use HTTP/2, as on a connection without TLS.
    take(socket, identity)
  })
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  tls.onReload(() => server.setSecureContext(tls.mutual()))
  return server
}

/**
 * Reads the header of the PROXY protocol from a new connection, and leaves the bytes after it on the
 * socket. Closes the connection if the header is invalid, or not complete in time.
 *
 * @param done called with the client's address, at most once, and not for a closed connection
 */
function readProxyHeader(socket: Socket, timeoutMs: number, done: (address: string) => void): void {
  const own = socket.remoteAddress ?? ''
  let received: Buffer = Buffer.alloc(0)
  const timer = setTimeout(() => socket.destroy(), timeoutMs)
  const stop = (): void => {
    clearTimeout(timer)
    socket.off('readable', read)
    socket.off('close', stop)
  }
  // Bounded: a header that is too long is invalid, and a read returns at most one buffer of Node.
  const read = (): void => {
    const chunk: Buffer | null = socket.read()
    if (chunk === null) return
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    const header = parseProxyHeader(received)
    if (header.state === 'incomplete') return
    stop()
    if (header.state === 'invalid') {
      socket.destroy()
      return
    }
    const rest = received.subarray(header.length)
    if (rest.length > 0) socket.unshift(rest)
    done(header.address ?? own)
  }
  // Ignores errors until an HTTP/2 or TLS session handles them.
  socket.on('error', () => undefined)
  socket.on('readable', read)
  socket.on('close', stop)
}
