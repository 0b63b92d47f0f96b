import { registerConnect } from '../connect/connect.ts'
import { gateway } from '../rest/gateway.ts'
import type { Invoker } from '../rpc/invokers.ts'
import { type NotificationReceiver, registerBankNotifications } from './bank-notifications.ts'
import { registerConsole } from './console.ts'
import { type ConsoleSessions, registerConsoleSessions } from './console-sessions.ts'
import { registerDocuments } from './documents.ts'
import { allowOrigins } from './headers.ts'
import { createHttpApp, type HttpAppOptions, type HttpServer } from './http-app.ts'
import { type Operations, registerHealth, registerOperations } from './operations.ts'
import { sessionSecretOf } from './session-cookie.ts'

interface HttpServerOptions<Bank> extends HttpAppOptions {
  readonly invokers: readonly Invoker[]
  readonly notifications: NotificationReceiver<Bank>
  /** The origins whose scripts may call from a browser. */
  readonly corsOrigins: readonly string[]
  /** Undefined: the console is not served. */
  readonly console: ConsoleSessions | undefined
  /** Undefined: they have a port of their own. */
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
    registerConsole(app)
  }
  await registerBankNotifications(app, options.notifications)
  await registerDocuments(app)
  registerHealth(app)
  if (options.operations) registerOperations(app, options.operations)
  return listen('HTTP_PORT', paths)
}
