import type { DescService } from '@bufbuild/protobuf'
import {
  logVerbosity,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  setLogVerbosity,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { HealthImplementation } from 'grpc-health-check'
import type { Logger } from 'pino'
import { Fault } from '../errors.ts'
import type { Call } from './calls.ts'
import { type Bridge, toHandler, toMethodDefinition } from './grpc-bridge.ts'
import { addReflection } from './reflection.ts'

export interface GrpcDoorOptions {
  readonly calls: readonly Call[]
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  readonly reflection: boolean
  readonly requestIds: () => string
  readonly log: Logger
}

export interface GrpcDoor {
  readonly port: number
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
  // Statistics that nobody reads, and that cost on every message.
  'grpc.enable_channelz': 0,
}

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
  const server = new Server(SERVER_OPTIONS)
  const bridge: Bridge = { requestIds: options.requestIds, log: options.log, streams: new Set() }
  const services = addServices(server, options.calls, bridge)
  const health = addHealth(server, services)
  if (options.reflection) addReflection(server, services)
  const port = await listen(server, options.host, options.port)
  let closing: Promise<void> | undefined
  return {
    port,
    close: (drainMs) => {
      health.stopServing()
      closing ??= drain(server, toAddress(options.host, port), bridge, drainMs)
      return closing
    },
  }
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

function listen(server: Server, host: string, port: number): Promise<number> {
  const address = toAddress(host, port)
  // TLS, when it comes, is another kind of credentials here.
  const credentials = ServerCredentials.createInsecure()
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, bound) => {
      if (error) reject(new Error(`gRPC cannot listen at ${address}`, { cause: error }))
      else resolve(bound)
    })
  })
}

function toAddress(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

async function drain(
  server: Server,
  address: string,
  { streams }: Bridge,
  drainMs: number,
): Promise<void> {
  // This cuts what is left at the end. `forceShutdown` would not: without channelz, grpc-js 1.14
  // forgets the connections that it should close.
  server.drain(address, drainMs + FLUSH_MS)
  const closed = new Promise<void>((resolve) => server.tryShutdown(() => resolve()))
  if (await within(closed, drainMs)) return
  const text = 'The service is restarting; resume the stream'
  for (const stream of streams) {
    stream.abort(new Fault('unavailable', text, { retryAfterSeconds: 1 }))
  }
  await within(closed, 2 * FLUSH_MS)
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
