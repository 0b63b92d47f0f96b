import type { Logger } from 'pino'
import type { Config } from './config.ts'
import { createRequestIds } from './ids.ts'
import type { Call } from './server/calls.ts'
import { type GrpcServer, openGrpcServer } from './server/grpc/server.ts'
import { type Exposition, type HttpDoor, openHttpDoor } from './server/http.ts'
import type { NotificationReceiver } from './server/notifications.ts'
import type { Tls } from './server/tls.ts'

interface DoorsOptions<Bank> {
  readonly config: Config
  readonly calls: readonly Call[]
  readonly notifications: NotificationReceiver<Bank>
  readonly exposition: Exposition
  /** Whether calls can be served now. */
  readonly ready: () => Promise<boolean>
  readonly log: Logger
  readonly tls: Tls | undefined
}

/** Opens both doors, or none. */
export async function openDoors<Bank>(
  options: DoorsOptions<Bank>,
): Promise<{ readonly http: HttpDoor; readonly grpc: GrpcServer }> {
  const { config, calls, notifications, exposition, ready, log, tls } = options
  const common = { calls, host: config.host, requestIds: createRequestIds(), log, tls }
  const http = await openHttpDoor({
    ...common,
    notifications,
    port: config.httpPort,
    trustedProxies: config.trustedProxies,
    metrics: exposition,
    ready,
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
    })
    return { http, grpc }
  } catch (error) {
    await http.close(0)
    throw error
  }
}
