import { readFile } from 'node:fs/promises'
import type { Pool } from 'pg'
import { Gauge, type Registry } from 'prom-client'
import type { LoopWatch } from '../core/loop-watch.ts'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import { registerPendingMetrics } from '../notifications/notification-status.ts'
import { registerReviewMetrics } from '../overview/review/metrics.ts'
import { observePools } from '../postgres/pool-metrics.ts'
import { readServerVersion } from '../postgres/replicas/standbys.ts'
import { registerDatabaseMetrics } from '../postgres/server-metrics.ts'
import { registerCertificateMetrics } from '../server/certificate-metrics.ts'
import { registerSettlementMetrics } from '../settlement/overdue.ts'
import { registerBacklogMetrics } from '../webhooks/backlog-metrics.ts'
import type { ServiceOptions } from './service-options.ts'
import { VERSION } from './version.ts'

interface Dependencies {
  readonly options: ServiceOptions
  /** The metrics of this process. */
  readonly metrics: Registry
  /** Of this process. */
  readonly loops: LoopWatch
  /** The pools of the replicas, by their names. */
  readonly replicaPools: ReadonlyMap<string, Pool>
  /** Why the service cannot serve calls now; empty: it can. */
  readonly ready: () => Promise<readonly string[]>
}

/**
 * Registers the metrics that belong to no unit of work: of the database, the backlogs in it, and the process. What
 * is measured where it happens (calls, payments, attempts, requests to banks) is registered there.
 *
 * @returns what ends the measuring
 */
export function registerMetrics(dependencies: Dependencies): () => void {
  const { options, metrics, loops, replicaPools, ready } = dependencies
  const { database, clock, config, tls } = options
  const { pool, recordingPool, relaxedPool } = database
  registerBuild(metrics, options)
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
  registerDatabaseMetrics(metrics, pool)
  registerPendingMetrics(metrics, pool)
  registerBacklogMetrics(metrics, pool)
  registerSettlementMetrics(metrics, pool, clock)
  registerReviewMetrics(metrics, database, clock)
  registerCertificateMetrics(metrics, async () => {
    const caFile = config.relay?.caFile
    const relay = caFile === undefined ? undefined : await readFile(caFile).catch(() => undefined)
    return { ...tls?.certificates(), ...(relay && { RELAY_TLS_CA: relay }) }
  })
  return observePools(metrics, {
    main: pool,
    recording: recordingPool,
    relaxed: relaxedPool,
    ...Object.fromEntries(replicaPools),
  })
}

function registerBuild(metrics: Registry, { database }: ServiceOptions): void {
  let postgres = 'unknown'
  registerSampledGauges(metrics, async () => {
    const found = await readServerVersion(database.pool).catch(() => undefined)
    // An upgrade of the server is rare; while it does not respond, its version is the last one.
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
