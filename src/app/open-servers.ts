import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { createRequestIds } from '../core/ids.ts'
import { addressRanges, parseAddress } from '../net/address-ranges.ts'
import type { Proxies } from '../server/grpc/listener.ts'
import { type GrpcServer, openGrpcServer } from '../server/grpc/server.ts'
import type { NotificationReceiver } from '../server/http/bank-notifications.ts'
import type { HttpServer } from '../server/http/http-app.ts'
import { openHttpServer } from '../server/http/http-server.ts'
import type { Exposition } from '../server/http/operations.ts'
import type { Invoker } from '../server/rpc/invokers.ts'
import type { Tls } from '../server/tls.ts'

interface ServersOptions<Bank> {
  readonly config: Config
  readonly invokers: readonly Invoker[]
  readonly notifications: NotificationReceiver<Bank>
  readonly exposition: Exposition
  /** Why the service cannot serve calls now; empty: it can. */
  readonly ready: () => Promise<readonly string[]>
  /** What an operator should know although it can. */
  readonly notes: () => readonly string[]
  readonly log: Logger
  readonly tls: Tls | undefined
}

/** Opens the HTTP and the gRPC server, or neither. */
export async function openServers<Bank>(
  options: ServersOptions<Bank>,
): Promise<{ readonly http: HttpServer; readonly grpc: GrpcServer }> {
  const { config, invokers, notifications, exposition, ready, notes, log, tls } = options
  const common = { invokers, host: config.host, requestIds: createRequestIds(), log, tls }
  const http = await openHttpServer({
    ...common,
    notifications,
    port: config.httpPort,
    trustedProxies: config.trustedProxies,
    metrics: exposition,
    ready,
    notes,
    limits: config,
    corsOrigins: config.corsOrigins,
  })
  try {
    const reflection = config.grpcReflection
    const grpc = await openGrpcServer({
      ...common,
      port: config.grpcPort,
      reflection,
      limits: config,
      proxies: config.proxyProtocol ? trustedOf(config.trustedProxies) : undefined,
    })
    return { http, grpc }
  } catch (error) {
    await http.close(0)
    throw error
  }
}

function trustedOf(cidrs: readonly string[]): Proxies {
  const ranges = addressRanges(cidrs)
  return {
    isTrusted(text) {
      const address = parseAddress(text)
      return address !== undefined && ranges.contains(address)
    },
  }
}
