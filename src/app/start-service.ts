import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { createAuditExport } from '../auth/audit/export-audit-head.ts'
import { beginAuditLog } from '../auth/audit/head-store.ts'
import type { TracingConfig } from '../config/tracing-settings.ts'
import { newId } from '../core/ids.ts'
import { watchLoops } from '../core/loop-watch.ts'
import { createEncrypter, type Encrypter } from '../crypto/encryption.ts'
import { createKeyHeartbeat, type KeyHeartbeat } from '../crypto/key-heartbeat.ts'
import { createFiguresJob } from '../overview/figures/figures-job.ts'
import { createDatabaseClock } from '../postgres/database-clock.ts'
import { newestMigration } from '../postgres/migrate.ts'
import { createPartitionJob } from '../postgres/partitions/job.ts'
import { registerPartitionMetrics } from '../postgres/partitions/metrics.ts'
import { createExposition, registerServerMetrics } from '../server/metrics.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { composeDomains, type Domains } from './compose-domains.ts'
import { composeInvokers } from './compose-invokers.ts'
import { composeReplicas } from './compose-replicas.ts'
import { encryptedTables } from './encrypted-tables.ts'
import { openServers } from './open-servers.ts'
import { partitionedTables } from './partitioned-tables.ts'
import { createReady } from './ready.ts'
import { registerMetrics } from './register-metrics.ts'
import type { ServiceOptions } from './service-options.ts'
import { VERSION } from './version.ts'

/** How long requests and streams have to end by themselves when the service stops. */
const DRAIN_MS = 3_000

/** A running service. */
export interface Service {
  readonly httpPort: number
  readonly grpcPort: number
  /** Undefined: /metrics and /readyz are at the HTTP port. */
  readonly opsPort: number | undefined
  /** The metrics of this process as they are now: /metrics renders them at most once a second. */
  readonly metrics: Registry
  /** Reports that the service is about to stop: it is not ready any more, and goes on serving. */
  announceStop(): void
  /** Finishes what is in progress, and stops. The database stays open. @returns what it cut */
  close(): Promise<Cut>
}

/** Requests and streams that had not ended by themselves when the service stopped. */
export interface Cut {
  readonly http_cut: number
  readonly grpc_cut: number
}

/** Composes the domains, opens the servers and starts the work. */
export async function startService(given: ServiceOptions): Promise<Service> {
  const { config, database, log, tls, clockEveryMs: everyMs } = given
  const clock = createDatabaseClock({ pool: database.pool, clock: given.clock, log, everyMs })
  const tracing = await openTracing(config.tracing, log)
  const replicas = composeReplicas(given)
  const options: ServiceOptions = {
    ...given,
    database: replicas?.database ?? database,
    clock,
    tracing,
  }
  const encrypter = createEncrypter(options.masterKey, options.otherKeys)
  const keyHeartbeat = keysOf(options, encrypter)
  await keyHeartbeat.start()
  const stopping = new AbortController()
  const drain = new AbortController()
  const draining = drain.signal
  const loops = watchLoops(log, given.clock)
  const domains = composeDomains(options, encrypter)
  const { metrics, webhooks, events, keyUses, payments, settlements, exchange, limits } = domains
  const console = config.console.enabled ? { ...domains.sessions, limits, clock, log } : undefined
  const background = createBackgroundWork({ options, domains, encrypter })
  const ready = createReady(database, payments.batches, stopping.signal)
  const open = () =>
    openServers({
      config,
      log,
      tls,
      console,
      notifications: payments.notifications,
      invokers: composeInvokers({ options, domains, encrypter, draining }),
      exposition: createExposition(metrics),
      ready: ready.reasons,
      notes: () =>
        [clock.note(), ...ready.notes(), ...loops.notes()].filter((note) => note !== undefined),
    })
  const { http, grpc, ops } = await clock
    .start()
    .then(limits.known.load)
    .then(open)
    .catch(async (error: unknown) => {
      loops.stop()
      await Promise.all([keyHeartbeat.stop(), clock.stop()])
      throw error
    })
  replicas?.start(metrics)
  registerServerMetrics(metrics, { http, grpc, ...(ops && { ops }) }, clock)
  const endMetrics = registerMetrics({
    options,
    metrics,
    loops,
    ready: ready.reasons,
    replicaPools: replicas?.pools ?? new Map(),
  })
  const { recordingPool } = database
  const connected = Array.from({ length: recordingPool.options.max }, () =>
    recordingPool.query('select 1'),
  )
  await Promise.allSettled(connected)
  events.start()
  webhooks.start()
  keyUses.start()
  payments.breakers.start()
  background.start()
  const announceStop = (): void => {
    stopping.abort()
    for (const server of [http, grpc, ops]) server?.announceStop()
  }
  return {
    httpPort: http.port,
    grpcPort: grpc.port,
    opsPort: ops?.port,
    metrics,
    announceStop,
    async close() {
      announceStop()
      drain.abort()
      const [httpCut, grpcCut] = await Promise.all([
        http.close(DRAIN_MS),
        grpc.close(DRAIN_MS),
        webhooks.stop(),
        settlements.stop(),
      ])
      await Promise.all([events.stop(), keyUses.stop(), payments.stop(), background.stop()])
      await replicas?.stop()
      // Last, so that an operator sees the stop.
      await Promise.all([ops?.close(0), keyHeartbeat.stop(), exchange.stop(), clock.stop()])
      await tracing?.close()
      endMetrics()
      loops.stop()
      return { http_cut: httpCut, grpc_cut: grpcCut }
    },
  }
}

function keysOf(options: ServiceOptions, encrypter: Encrypter): KeyHeartbeat {
  const { database, clock, log, rereadKeys } = options
  return createKeyHeartbeat({
    instance: {
      id: newId('ins', clock.now()),
      version: VERSION,
      migration: newestMigration(database.orm),
      process: `${hostname()}/${process.pid}`,
    },
    orm: database.orm,
    encrypter,
    tables: encryptedTables(database),
    log,
    reread: rereadKeys,
    onFirstKey: () => beginAuditLog(database.pool, encrypter),
  })
}

interface Dependencies {
  readonly options: ServiceOptions
  readonly domains: Domains
  readonly encrypter: Encrypter
}

/** The work that no call waits for. Locks and leases let one instance at a time do what is done once. */
interface BackgroundWork {
  start(): void
  /** Stops the work that is no domain's; the domains stop their own. */
  stop(): Promise<unknown>
}

function createBackgroundWork(dependencies: Dependencies): BackgroundWork {
  const { options, domains, encrypter } = dependencies
  const { config, database, clock, log } = options
  const { pool } = database
  const { relay, settlements, payments, metrics } = domains
  const auditExport = createAuditExport({ pool, keys: encrypter, log, metrics })
  const tables = partitionedTables(pool, clock, config)
  const partitions = createPartitionJob({ pool, clock, log, tables })
  const figures = createFiguresJob({ database, clock, log })
  registerPartitionMetrics(metrics, pool, clock, tables)
  return {
    start() {
      auditExport.start()
      partitions.start()
      figures.start()
      relay?.start()
      settlements.start()
      payments.start()
    },
    stop: () => Promise.all([auditExport.stop(), partitions.stop(), figures.stop(), relay?.stop()]),
  }
}

/**
 * Starts tracing, if the settings ask for it. The SDK is loaded only then: that takes a tenth of a second.
 *
 * @throws Error that names the setting of a file that cannot be read
 */
export async function openTracing(
  config: TracingConfig | undefined,
  log: Logger,
): Promise<Tracing | undefined> {
  if (config === undefined) return undefined
  const { createOtlpTracing } = await import('../tracing/otlp-tracing.ts')
  return createOtlpTracing(config, log)
}
