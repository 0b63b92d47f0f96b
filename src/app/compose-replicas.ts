import type { Pool } from 'pg'
import { Counter, Gauge, type Registry } from 'prom-client'
import { replicaName } from '../config/replica-urls.ts'
import { LOGGED_TIMELINE } from '../events/log-state.ts'
import { type Database, openReadPool, poolSizes } from '../postgres/orm.ts'
import type { Replica } from '../postgres/replicas/replica.ts'
import { createReplicas } from '../postgres/replicas/replicas.ts'
import type { ServiceOptions } from './service-options.ts'

/** The database of a service with replicas. */
interface ReplicatedDatabase {
  /** Its `read` chooses between the replicas and the primary. */
  readonly database: Database
  /** The pools of the replicas, by their names. */
  readonly pools: ReadonlyMap<string, Pool>
  start(metrics: Registry): void
  stop(): Promise<void>
}

/** Opens the pools of the replicas; undefined: there are none. */
export function composeReplicas(options: ServiceOptions): ReplicatedDatabase | undefined {
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
    pool: database.pool,
    pools,
    loggedTimeline: LOGGED_TIMELINE,
    log,
    onRead: (target) => reads.inc({ target }),
  })
  return {
    database: { ...database, read: replicas.read },
    pools,
    start(metrics) {
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
