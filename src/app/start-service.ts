import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { beginAuditLog, createAuditExport } from '../auth/audit/export-audit-head.ts'
import type { Config } from '../config/config.ts'
import { replicaName } from '../config/service-settings.ts'
import type { TracingConfig } from '../config/tracing-settings.ts'
import { shareResult } from '../core/concurrency.ts'
import { newId } from '../core/ids.ts'
import { type LoopWatch, watchLoops } from '../core/loop.ts'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import type { Tracing } from '../core/tracing.ts'
import { createEncrypter, type Encrypter } from '../crypto/encryption.ts'
import { createKeyHeartbeat, type KeyHeartbeat } from '../crypto/key-heartbeat.ts'
import { LOGGED_TIMELINE } from '../events/log-state.ts'
import { registerPendingMetrics } from '../notifications/held-notifications.ts'
import { createFiguresJob } from '../overview/figures-job.ts'
import { registerReviewMetrics } from '../overview/list-review-items.ts'
import { createNoteRetention } from '../overview/update-review-item.ts'
import { registerPayoutMetrics } from '../payouts/metrics.ts'
import { createDatabaseClock } from '../postgres/database-clock.ts'
import { newestMigration } from '../postgres/migrate.ts'
import { openReadPool, poolSizes } from '../postgres/orm.ts'
import { createPartitionJob, registerPartitionMetrics } from '../postgres/partition-job.ts'
import { observePools } from '../postgres/pool-metrics.ts'
import { createReplicas, type Replica } from '../postgres/replicas.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { registerDatabaseMetrics } from '../postgres/server-metrics.ts'
import { readServerVersion } from '../postgres/server-state.ts'
import type { Exposition } from '../server/http/http-server.ts'
import { registerCertificateMetrics } from '../server/tls.ts'
import { registerSettlementMetrics } from '../settlement/overdue.ts'
import { registerBacklogMetrics } from '../webhooks/backlog-metrics.ts'
import { composeDomains, type Domains, type ServiceOptions } from './compose-domains.ts'
import { composeInvokers } from './compose-invokers.ts'
import { openServers, type Ports } from './open-servers.ts'
import { createReady } from './ready.ts'
import { encryptedTables, partitionedTables } from './tables.ts'
import { VERSION } from './version.ts'

/** How long requests and streams may take to end by themselves when the service stops. */
const DRAIN_MS = 3_000

/** A running service. */
export interface Service extends Ports {
  /** The metrics of this process; /metrics renders them at most once a second. */
  readonly metrics: Registry
  /** Reports that the service is about to stop: it is no longer ready, and continues to serve. */
  announceStop(): void
  /** Finishes the work in progress, and stops. The database stays open. @returns the number of cut requests and streams */
  close(): Promise<{ readonly http_cut: number; readonly grpc_cut: number }>
}

/** Composes the domains, opens the servers and starts the work. */
export async function startService(given: ServiceOptions): Promise<Service> {
  const { config, database, log, tls, clockEveryMs: everyMs } = given
  const clock = createDatabaseClock({
    durablePool: database.durablePool,
    clock: given.clock,
    log,
    everyMs,
  })
  const tracing = await openTracing(config.tracing, log)
  const replicas = composeReplicas(given)
  const metrics = createMetrics(tracing !== undefined)
  const runtime: Runtime = {
    database: replicas?.database ?? database,
    clock,
    safeClock: clock.safe,
    log,
    metrics,
    tracing,
    onCommit: () => events.onCommit(),
  }
  const encrypter = createEncrypter(given.masterKey, given.otherKeys)
  const keyHeartbeat = keysOf(runtime, encrypter, given)
  await keyHeartbeat.start()
  const stopping = new AbortController()
  const drain = new AbortController()
  const draining = drain.signal
  const loops = watchLoops(log, given.clock)
  const domains = composeDomains(runtime, given, encrypter)
  const { webhooks, events, keyUses, requests, payments, settlements, payouts } = domains
  const { exchange, limits } = domains
  const { logo } = config.console.portal
  const console = config.console.enabled
    ? { ...domains.sessions, logo, limits, clock, log }
    : undefined
  const background = createBackgroundWork(runtime, { config, domains, encrypter })
  const ready = createReady(database, payments.batches, stopping.signal)
  const open = () =>
    openServers({
      config,
      log,
      tls,
      console,
      notifications: payments.notifications,
      invokers: composeInvokers({ runtime, options: given, domains, encrypter, draining }),
      operations: {
        metrics: createExposition(metrics),
        ready: ready.reasons,
        notes: () =>
          [clock.note(), ...ready.notes(), ...loops.notes()].filter((note) => note !== undefined),
      },
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
  const endMetrics = registerMetrics(runtime, {
    config,
    tls,
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
  requests.start()
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
        payouts.stop(),
      ])
      const uses = [keyUses.stop(), requests.stop()]
      await Promise.all([events.stop(), ...uses, payments.stop(), background.stop()])
      await replicas?.stop()
      // These close last, so that operators can observe the stop.
      await Promise.all([ops?.close(0), keyHeartbeat.stop(), exchange.stop(), clock.stop()])
      await tracing?.close()
      endMetrics()
      loops.stop()
      return { http_cut: httpCut, grpc_cut: grpcCut }
    },
  }
}

function keysOf(
  { database, clock, log }: Runtime,
  encrypter: Encrypter,
  { clock: machineClock, rereadKeys }: ServiceOptions,
): KeyHeartbeat {
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
    clock: machineClock,
    reread: rereadKeys,
    onFirstKey: () => beginAuditLog(database.durablePool, encrypter),
  })
}

interface Dependencies {
  readonly config: Config
  readonly domains: Domains
  readonly encrypter: Encrypter
}

/** The work that no call waits for. Locks and leases let only one instance at a time do work that must be done once. */
function createBackgroundWork(runtime: Runtime, dependencies: Dependencies) {
  const { config, domains, encrypter } = dependencies
  const { relay, settlements, payments, payouts } = domains
  const auditExport = createAuditExport(runtime, encrypter)
  const tables = partitionedTables(runtime, config)
  const partitions = createPartitionJob(runtime, tables)
  const figures = createFiguresJob(runtime)
  const reviewNotes = createNoteRetention(runtime)
  registerPartitionMetrics(runtime, tables)
  return {
    start() {
      auditExport.start()
      partitions.start()
      figures.start()
      reviewNotes.start()
      relay?.start()
      settlements.start()
      payments.start()
      payouts.start()
    },
    /** Stops the work that belongs to no domain. The domains stop their own work. */
    stop: () =>
      Promise.all([
        auditExport.stop(),
        partitions.stop(),
        figures.stop(),
        reviewNotes.stop(),
        relay?.stop(),
      ]),
  }
}

/**
 * Starts tracing if it is configured. The SDK is loaded only then, because that takes a tenth of a second.
 *
 * @throws Error that names the setting of a file that cannot be read
 */
export async function openTracing(
  config: TracingConfig | undefined,
  log: Logger,
): Promise<Tracing | undefined> {
  if (config === undefined) return undefined
  const { createOtlpTracing } = await import('./otlp-tracing.ts')
  return createOtlpTracing(config, log)
}

/** Opens the pools of the replicas; undefined: no replicas are configured. */
function composeReplicas(options: ServiceOptions) {
  const { config, database, log } = options
  const { databaseReadUrls: urls, pooler, workers, databasePoolSize } = config
  if (urls.length === 0) return undefined
  const { connectionsMax } = poolSizes(workers, databasePoolSize)
  const reads = new Counter({
    name: 'inflow_reads_total',
    help: 'Look-ups and pages of lists, by the server that ran them.',
    labelNames: ['target'],
    registers: [],
  })
  const pools = new Map(
    urls.map((url) => [replicaName(url), openReadPool(url, pooler, connectionsMax)]),
  )
  const replicas = createReplicas({
    durablePool: database.durablePool,
    pools,
    loggedTimeline: LOGGED_TIMELINE,
    log,
    onRead: (target) => reads.inc({ target }),
  })
  return {
    /** The database, whose `read` chooses between the replicas and the primary. */
    database: { ...database, read: replicas.read },
    /** The pools of the replicas, by their names. */
    pools,
    start(metrics: Registry) {
      metrics.registerMetric(reads)
      registerReplicaMetrics(metrics, replicas.all)
      replicas.start()
    },
    stop: replicas.stop,
  }
}

function registerReplicaMetrics(metrics: Registry, replicas: readonly Replica[]): void {
  const gauge = (name: string, help: string, measure: (replica: Replica) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['replica'],
      registers: [metrics],
      collect() {
        for (const replica of replicas) this.set({ replica: replica.name }, measure(replica))
      },
    })
  gauge('inflow_replica_usable', 'Whether reads go to the replica.', (replica) =>
    replica.fault() === undefined ? 1 : 0,
  )
  gauge(
    'inflow_replica_lag_seconds',
    'For how long the replica has not been usable, or has been behind the primary.',
    (replica) => replica.lag().seconds,
  )
  gauge(
    'inflow_replica_lag_bytes',
    'How much of the log of the primary the replica lacked at the last check; 0: it is fresh.',
    (replica) => replica.lag().bytes,
  )
}

/** Creates the registry of this process. Its format is that of all its metrics: only OpenMetrics has exemplars. */
function createMetrics(openMetrics: boolean): Registry {
  const metrics = new Registry()
  // The types of prom-client bind a registry to its initial format.
  if (openMetrics) metrics.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never)
  collectDefaultMetrics({ register: metrics })
  return metrics
}

/** The shortest interval between two renderings, each of which costs as much as hundreds of look-ups. */
const RENDER_INTERVAL_MS = 1_000

/** Renders metrics at most once a second. */
function createExposition(metrics: Registry): Exposition {
  const read = shareResult(async () => {
    const atMs = performance.now()
    return { value: await metrics.metrics(), atMs }
  }, RENDER_INTERVAL_MS)
  return { contentType: metrics.contentType, metrics: async () => (await read()).value }
}

/** Reports the open connections of each server, and the clock of this machine. */
function registerServerMetrics(
  metrics: Registry,
  servers: Readonly<Record<string, { connections(): number }>>,
  clock: { offsetMs(): number },
): void {
  new Gauge({
    name: 'inflow_clock_offset_seconds',
    help: "How far this machine's clock is ahead of the database's.",
    registers: [metrics],
    collect() {
      this.set(clock.offsetMs() / 1_000)
    },
  })
  new Gauge({
    name: 'inflow_connections',
    help: 'Open connections, by server.',
    labelNames: ['server'],
    registers: [metrics],
    collect() {
      for (const [server, { connections }] of Object.entries(servers))
        this.set({ server }, connections())
    },
  })
}

interface MetricsDependencies {
  readonly config: Config
  readonly tls: ServiceOptions['tls']
  /** The loops of this process. */
  readonly loops: LoopWatch
  /** The pools of the replicas, by their names. */
  readonly replicaPools: ReadonlyMap<string, Pool>
  /** The reasons why the service cannot serve calls now; empty: it is ready. */
  readonly ready: () => Promise<readonly string[]>
}

/**
 * Registers the metrics of the database, its backlogs and the process. The metrics of calls, payments, webhook attempts and
 * bank requests are registered where they are measured.
 *
 * @returns a function that ends the measuring
 */
function registerMetrics(runtime: Runtime, dependencies: MetricsDependencies): () => void {
  const { config, tls, loops, replicaPools, ready } = dependencies
  const { metrics } = runtime
  const { durablePool, recordingPool, relaxedPool } = runtime.database
  registerBuild(runtime)
  new Gauge({
    name: 'inflow_ready',
    help: 'Whether the process can serve calls, as /readyz says.',
    registers: [metrics],
    async collect() {
      this.set((await ready()).length === 0 ? 1 : 0)
    },
  })
  new Gauge({
    name: 'inflow_loop_failing_seconds',
    help: 'For how long background work has failed, by its name; a loop that works has no value.',
    labelNames: ['loop'],
    registers: [metrics],
    collect() {
      this.reset()
      for (const [loop, ms] of loops.failingMs()) this.set({ loop }, ms / 1_000)
    },
  })
  registerDatabaseMetrics(metrics, durablePool)
  registerPendingMetrics(runtime)
  registerBacklogMetrics(runtime)
  registerSettlementMetrics(runtime)
  registerReviewMetrics(runtime)
  registerPayoutMetrics(runtime)
  registerCertificateMetrics(metrics, async () => {
    const caFile = config.relay?.caFile
    const relay = caFile === undefined ? undefined : await readFile(caFile).catch(() => undefined)
    return { ...tls?.certificates(), ...(relay && { RELAY_TLS_CA: relay }) }
  })
  return observePools(metrics, {
    main: durablePool,
    recording: recordingPool,
    relaxed: relaxedPool,
    ...Object.fromEntries(replicaPools),
  })
}

function registerBuild({ database, metrics }: Runtime): void {
  let postgres = 'unknown'
  registerSampledGauges(metrics, async () => {
    const found = await readServerVersion(database.durablePool).catch(() => undefined)
    // Upgrades of the server are rare, so its last known version stays while it does not respond.
    if (found !== undefined) postgres = found.version
    return postgres
  }, [
    {
      name: 'inflow_build_info',
      help: 'Versions of this service, of Node.js and of PostgreSQL, as labels; the value is 1.',
      labelNames: ['version', 'node', 'postgres'],
      measure: (version) => [
        { labels: { version: VERSION, node: process.versions.node, postgres: version }, value: 1 },
      ],
    },
  ])
}
