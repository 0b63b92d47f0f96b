import type { Logger } from 'pino'
import type { Config } from '../../config/config.ts'
import { newestMigration } from '../../postgres/migrate.ts'
import type { Database } from '../../postgres/orm.ts'
import { VERSION } from '../console/version.ts'
import type { Ports } from '../open-servers.ts'

/** Logs what has started: versions, mode, ports, and the settings that decide what the service does. */
export async function logStart(
  { config, database, log }: { config: Config; database: Database; log: Logger },
  { httpPort, grpcPort, opsPort }: Ports,
): Promise<void> {
  const { rows } = await database.pool.query<{ version: string }>(
    "select current_setting('server_version') as version",
  )
  log.info(
    {
      version: VERSION,
      node: process.versions.node,
      postgres: rows[0]?.version,
      schema: newestMigration(database.orm),
      database: config.databaseUrl === undefined ? 'embedded' : 'external',
      host: config.host,
      http_port: httpPort,
      grpc_port: grpcPort,
      ops_port: opsPort,
      workers: config.workers,
      tls: config.tls !== undefined,
      live_banks: Object.keys(config.liveBanks),
      replicas: config.databaseReadUrls.length,
      relay: config.relay !== undefined,
      console: config.console.enabled,
      log_level: config.logLevel,
      shutdown_delay_seconds: config.shutdownDelaySeconds,
      start_ms: Math.round(performance.now()),
    },
    'started',
  )
}
