import type { DescService } from '@bufbuild/protobuf'
import {
  type ConnectionInjector,
  logVerbosity,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  setLogVerbosity,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { HealthImplementation } from 'grpc-health-check'
import type { Logger } from 'pino'
import { assert, Fault } from '../errors.ts'
import type { Call } from './calls.ts'
import type { ConnectionLimits } from './connections.ts'
import { type Bridge, toHandler, toMethodDefinition } from './grpc-bridge.ts'
import { type GrpcListener, listen } from './grpc-listener.ts'
import {
  boundRequests,
  REQUEST_LIMITS,
  type RequestLimits,
  type StreamSource,
} from './grpc-requests.ts'
import { addReflection } from './reflection.ts'
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
  readonly serverOptions?: Partial<typeof SERVER_OPTIONS>
  readonly requestLimits?: Partial<RequestLimits>
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

const SERVER_OPTIONS = {
  // RecordPayments takes 1,000 payments of at most some 3 KB each.
  'grpc.max_receive_message_length': 4 * 1024 * 1024,
  // Of one connection. The size of headers is bounded by Node: 64 KiB.
  'grpc.max_concurrent_streams': 1000,
  // A subscriber that lost its network is noticed, and its stream freed, within 40 s.
  'grpc.keepalive_time_ms': 30_000,
  'grpc.keepalive_timeout_ms': 10_000,
  // Clients connect anew when they need to; connections that nobody uses make room for others.
  'grpc.max_connection_idle_ms': 10 * 60_000,
  // Statistics that nobody reads, and that cost on every message.
  'grpc.enable_channelz': 0,
}

/** Watches of health, which anybody may open. */
const WATCHES_MAX = 1_000

/** How long the last status of a stream has to reach its client. */
const FLUSH_MS = 500

/**
 * Serves the calls over gRPC, with the standard health and reflection services.
 *
 * @throws Error when the address cannot be listened at
 */
export async function openGrpcDoor(options: GrpcDoorOptions): Promise<GrpcDoor> {
  // On an error grpc-js prints the header that it could not read, and that may be a key.
  setLogVerbosity(logVerbosity.NONE)
  const server = new Server({ ...SERVER_OPTIONS, ...options.serverOptions })
  const bridge: Bridge = {
    requestIds: options.requestIds,
    log: options.log,
    streams: new Set(),
    clientUri: (peer) => listener.clientUri(peer),
  }
  const services = addServices(server, options.calls, bridge)
  const health = addHealth(server, services)
  if (options.reflection) addReflection(server, services)
  // The connections are ours, so that they can be bounded and their certificates be changed.
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const limits = { ...REQUEST_LIMITS, ...options.requestLimits }
  const stopWatching = boundRequests(streamsOf(server), limits)
  const listener = await listen(options, (socket) => injector.injectConnection(socket)).catch(
    (error: unknown) => {
      stopWatching()
      throw error
    },
  )
  let closing: Promise<void> | undefined
  return {
    port: listener.port,
    connections: listener.connections,
    close: (drainMs) => {
      health.stopServing()
      stopWatching()
      closing ??= drain(server, injector, listener, bridge, drainMs)
      return closing
    },
  }
}

/**
 * The server of HTTP/2 that grpc-js made for the injector. It hands out neither that nor streams
 * before they are calls, and so too late to refuse them cheaply; grpc-js is pinned to one version.
 */
function streamsOf(server: Server): StreamSource {
  const { http2Servers } = server as unknown as { http2Servers?: Map<StreamSource, unknown> }
  const [source] = http2Servers?.keys() ?? []
  assert(source, 'grpc-js keeps its servers of HTTP/2 where it did')
  return source
}

function addServices(server: Server, calls: readonly Call[], bridge: Bridge): DescService[] {
  const services = [...new Set(calls.map((call) => call.service))]
  for (const service of services) {
    const own = calls.filter((call) => call.service === service)
    server.addService(
      Object.fromEntries(own.map((call) => [call.method.name, toMethodDefinition(call)])),
      Object.fromEntries(own.map((call) => [call.method.name, toHandler(call, bridge)])),
    )
  }
  return services
}

/** `grpc.health.v1.Health`, for the server as a whole ("") and for every service. */
function addHealth(server: Server, services: readonly DescService[]) {
  const names = ['', ...services.map((service) => service.typeName)]
  const health = new HealthImplementation(
    Object.fromEntries(names.map((name) => [name, 'SERVING' as const])),
  )
  const watches = new Set<ServerWritableStream<unknown, unknown>>()
  health.addToServer({
    addService: (definition, implementation) => {
      const { watch } = implementation as UntypedServiceImplementation
      server.addService(definition, {
        ...implementation,
        watch: (rpc: ServerWritableStream<unknown, unknown>) => {
          if (watches.size >= WATCHES_MAX) {
            rpc.emit('error', {
              code: status.RESOURCE_EXHAUSTED,
              details: 'Too many watch already',
            })
            return
          }
          watches.add(rpc)
          rpc.once('close', () => watches.delete(rpc))
          watch?.(rpc as never, undefined as never)
        },
      })
    },
  })
  return {
    /** Tells everybody, and ends the watches: they would keep the server open for nothing. */
    stopServing: () => {
      for (const name of names) health.setStatus(name, 'NOT_SERVING')
      for (const watch of watches) watch.end()
    },
  }
}

async function drain(
  server: Server,
  injector: ConnectionInjector,
  listener: GrpcListener,
  { streams }: Bridge,
  drainMs: number,
): Promise<void> {
  const closed = listener.stop()
  injector.drain(drainMs + FLUSH_MS)
  server.tryShutdown(() => undefined)
  if (await within(closed, drainMs)) return
  const text = 'The service is restarting; resume the stream'
  for (const stream of streams) {
    stream.abort(new Fault('unavailable', text, { retryAfterSeconds: 1 }))
  }
  // What never came to be a session of HTTP/2 knows nothing of a drain.
  if (!(await within(closed, 2 * FLUSH_MS))) listener.cut()
}

/** @returns whether the promise came true in time */
function within(promise: Promise<void>, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), timeoutMs)
    void promise.then(() => {
      clearTimeout(timer)
      resolve(true)
    })
  })
}
