import { createHttpApp, type HttpAppOptions, type HttpServer } from './http-app.ts'
import { type Operations, registerHealth, registerOperations } from './operations.ts'

/** Opens the server of OPS_PORT: health, readiness and metrics, away from the public port. */
export function openOpsServer(options: HttpAppOptions & Operations): Promise<HttpServer> {
  const { app, listen } = createHttpApp(options)
  registerHealth(app)
  registerOperations(app, options)
  return listen('OPS_PORT', new Set())
}
