import type { DescService } from '@bufbuild/protobuf'
import type { Client } from '@connectrpc/connect'
import pino, { type Logger } from 'pino'
import type { Registry } from 'prom-client'
import { ENTITIES } from '../../src/app/entities.ts'
import { startService } from '../../src/app/start-service.ts'
import { type Config, readConfig } from '../../src/config/config.ts'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { openTls } from '../../src/server/tls.ts'
import { grpcClient } from './grpc-client.ts'
import { ADMIN_TOKEN, MASTER_KEY } from './service.ts'

/** An instance of the service with its own connections. */
export interface Instance {
  readonly httpUrl: string
  readonly grpcUrl: string
  /** A client of the gRPC server with the admin token. */
  client<S extends DescService>(service: S): Client<S>
  /** The URL of OPS_PORT, if it is set. */
  readonly opsUrl: string
  /** The current metrics; /metrics renders them at most once a second. */
  readonly metrics: Registry
  reloadTls(): void
  /** Reports that the instance is about to stop; it continues to serve. */
  announceStop(): void
  close(): Promise<void>
}

/** @param databaseUrl a migrated database; instances may share it */
export async function startInstance(
  databaseUrl: string,
  overrides: Partial<Config> = {},
  log: Logger = pino({ level: 'silent' }),
  clock: Clock = systemClock,
  clockEveryMs?: number,
): Promise<Instance> {
  const database = await openDatabase(databaseUrl, ENTITIES)
  const tls = overrides.tls && openTls(overrides.tls, log)
  const service = await startService({
    config: { ...readConfig({ HTTP_PORT: '0', GRPC_PORT: '0' }), ...overrides },
    database,
    masterKey: MASTER_KEY,
    adminToken: ADMIN_TOKEN,
    clock,
    ...(clockEveryMs !== undefined && { clockEveryMs }),
    log,
    localWebhooks: true,
    tls,
  }).catch(async (error: unknown) => {
    await database.close()
    throw error
  })
  const scheme = overrides.tls ? 'https' : 'http'
  const grpcUrl = `${scheme}://127.0.0.1:${service.grpcPort}`
  return {
    httpUrl: `${scheme}://127.0.0.1:${service.httpPort}`,
    grpcUrl,
    opsUrl: `${scheme}://127.0.0.1:${service.opsPort}`,
    client: (desc) => grpcClient(desc, grpcUrl),
    metrics: service.metrics,
    reloadTls: () => tls?.reload(),
    announceStop: service.announceStop,
    async close() {
      await service.close()
      await database.close()
    },
  }
}
