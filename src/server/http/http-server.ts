import type { FastifyInstance } from 'fastify'
import type { Logo } from '../../config/console-settings.ts'
import type { Invoker } from '../invokers.ts'
import { type NotificationReceiver, registerBankNotifications } from './bank-notifications.ts'
import { registerConnect } from './connect.ts'
import {
  type ConsoleSessions,
  registerConsoleSessions,
  sessionSecretOf,
} from './console-sessions.ts'
import { registerConsole, registerDocuments } from './documents.ts'
import { gateway } from './gateway.ts'
import { createHttpApp, type HttpAppOptions, type HttpServer } from './http-app.ts'
import { allowOrigins } from './responses.ts'

/** The options of the console. */
export interface ConsoleOptions extends ConsoleSessions {
  /** The logo of portals; undefined: no logo. */
  readonly logo: Logo | undefined
}

interface HttpServerOptions<Bank> extends HttpAppOptions {
  readonly invokers: readonly Invoker[]
  readonly notifications: NotificationReceiver<Bank>
  /** The origins whose scripts may call from a browser. */
  readonly corsOrigins: readonly string[]
  /** Undefined: the console is not served. */
  readonly console: ConsoleOptions | undefined
  /** Undefined: health and metrics have a port of their own. */
  readonly operations: Operations | undefined
}

/** Opens the HTTP server: REST, Connect, gRPC-Web, bank notifications, OpenAPI, health, metrics. */
export async function openHttpServer<Bank>(options: HttpServerOptions<Bank>): Promise<HttpServer> {
  const { app, listen } = createHttpApp(options)
  await allowOrigins(app, options.corsOrigins)
  const paths = await gateway(app, options.invokers)
  const { console } = options
  await registerConnect(
    app,
    options.invokers,
    (request) => console && sessionSecretOf(request, console.ownOrigin),
  )
  if (console !== undefined) {
    await registerConsoleSessions(app, console)
    registerConsole(app, console.logo)
  }
  await registerBankNotifications(app, options.notifications)
  await registerDocuments(app)
  registerHealth(app)
  if (options.operations) registerOperations(app, options.operations)
  return listen('HTTP_PORT', paths)
}

/** The readiness and metrics of a server, for operators and their tools. */
export interface Operations {
  readonly metrics: Exposition
  /** The reasons why calls cannot be served now; empty: the service is ready. */
  readonly ready: () => Promise<readonly string[]>
  /** Warnings for operators while the service is ready. */
  readonly notes: () => readonly string[]
}

/** The response of `/metrics`, which is rendered at most once a second. */
export interface Exposition {
  readonly contentType: string
  metrics(): Promise<string>
}

/** `/healthz`: liveness of the process. */
export function registerHealth(app: FastifyInstance): void {
  app.get('/healthz', async () => ({ status: 'ok' }))
}

/** `/readyz` and `/metrics`. */
export function registerOperations(app: FastifyInstance, options: Operations): void {
  app.get('/readyz', async (_request, reply) => {
    const reasons = await options.ready()
    const found = options.notes()
    const notes = found.length > 0 ? { notes: found } : {}
    if (reasons.length === 0) return { status: 'ready', ...notes }
    return reply.code(503).send({ status: 'not ready', reasons, ...notes })
  })
  const { metrics } = options
  app.get('/metrics', (_request, reply) => {
    reply.header('content-type', metrics.contentType)
    return metrics.metrics()
  })
}
