import type { Logger } from 'pino'
import { readPolicy } from '../auth/method-policy.ts'
import type { Config } from '../config/config.ts'
import { isWithin } from '../core/addresses.ts'
import { createRequestIds } from '../core/ids.ts'
import { type GrpcServer, openGrpcServer } from '../server/grpc/server.ts'
import type { NotificationReceiver } from '../server/http/bank-notifications.ts'
import { createHttpApp, type HttpAppOptions, type HttpServer } from '../server/http/http-app.ts'
import {
  type ConsoleOptions,
  type Operations,
  openHttpServer,
  registerHealth,
  registerOperations,
} from '../server/http/http-server.ts'
import type { Invoker } from '../server/invokers.ts'
import type { Tls } from '../server/tls.ts'

interface ServersOptions<Bank> {
  readonly config: Config
  readonly invokers: readonly Invoker[]
  readonly notifications: NotificationReceiver<Bank>
  /** Undefined: the console is not served. */
  readonly console: ConsoleOptions | undefined
  readonly operations: Operations
  readonly log: Logger
  readonly tls: Tls | undefined
}

/** The ports of a service. */
export interface Ports {
  readonly httpPort: number
  readonly grpcPort: number
  /** Undefined: /metrics and /readyz are at the HTTP port. */
  readonly opsPort: number | undefined
}

/** Opens all servers, or none if one fails. */
export async function openServers<Bank>(options: ServersOptions<Bank>) {
  const { config, invokers, notifications, operations, log, tls } = options
  const { host, opsPort, trustedProxies } = config
  // Several workers listen on the same ports.
  const reusePort = config.workers > 1
  const common = { host, reusePort, requestIds: createRequestIds(), log, tls, limits: config }
  const opened: (HttpServer | GrpcServer)[] = []
  const opens = async <Server extends HttpServer | GrpcServer>(opening: Promise<Server>) => {
    const server = await opening
    opened.push(server)
    return server
  }
  try {
    const http = await opens(
      openHttpServer({
        ...common,
        invokers: config.httpInternal ? invokers : invokers.filter(isForBusinesses),
        notifications,
        console: options.console,
        port: config.httpPort,
        trustedProxies,
        corsOrigins: config.corsOrigins,
        operations: opsPort === undefined ? operations : undefined,
      }),
    )
    const grpc = await opens(
      openGrpcServer({
        ...common,
        invokers,
        port: config.grpcPort,
        reflection: config.grpcReflection,
        isProxy: config.proxyProtocol ? isWithin(trustedProxies) : undefined,
      }),
    )
    // Undefined: health and metrics are at the HTTP port.
    const ops =
      opsPort === undefined
        ? undefined
        : await opens(
            openOpsServer({
              ...common,
              ...operations,
              reusePort: false,
              port: opsPort,
              trustedProxies: [],
            }),
          )
    return { http, grpc, ops }
  } catch (error) {
    await Promise.all(opened.map((server) => server.close(0)))
    throw error
  }
}

function isForBusinesses({ method }: Invoker): boolean {
  return readPolicy(method).credential === 'secret key'
}

/** Opens the server of OPS_PORT, which keeps health, readiness and metrics off the public port. */
function openOpsServer(options: HttpAppOptions & Operations): Promise<HttpServer> {
  const { app, listen } = createHttpApp(options)
  registerHealth(app)
  registerOperations(app, options)
  return listen('OPS_PORT', new Set())
}
