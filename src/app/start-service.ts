import type { Registry } from 'prom-client'
import { beginAuditLog } from '../auth/audit/head-store.ts'
import { newId } from '../core/ids.ts'
import { createEncrypter, type Encrypter } from '../crypto/encryption.ts'
import { createKeyHeartbeat, type KeyHeartbeat } from '../crypto/key-heartbeat.ts'
import { createDatabaseClock } from '../postgres/database-clock.ts'
import { createExposition, registerServerMetrics } from '../server/metrics.ts'
import { openTracing } from '../tracing/open-tracing.ts'
import { createBackgroundWork } from './background-work.ts'
import { composeDomains } from './compose-domains.ts'
import { composeInvokers } from './compose-invokers.ts'
import { composeReplicas } from './compose-replicas.ts'
import { encryptedTables } from './encrypted-tables.ts'
import { openServers } from './open-servers.ts'
import { createReady } from './ready.ts'
import type { ServiceOptions } from './service-options.ts'

/** How long requests and streams have to end by themselves when the service stops. */
const DRAIN_MS = 3_000

/** A running service. */
export interface Service {
  readonly httpPort: number
  readonly grpcPort: number
  /** Undefined: /metrics and /readyz are at the HTTP port. */
  readonly opsPort: number | undefined
  /** The metrics of this process, without those of the database. */
  readonly metrics: Registry
  /** Begins the work that one worker does for all. Without other workers it has begun. */
  startBackground(): void
  /** Another worker's commits added events. */
  onCommit(): void
  /** Another worker made webhooks due. */
  deliveriesDue(): void
  /** Finishes what is in progress, and stops. The database stays open. */
  close(): Promise<void>
}

/** Composes the domains, opens the servers and starts the work. */
export async function startService(given: ServiceOptions): Promise<Service> {
  const { config, database, log, tls, channel } = given
  const clock = createDatabaseClock({ pool: database.pool, clock: given.clock, log })
  const tracing = await openTracing(config.tracing, log)
  const replicas = composeReplicas(given)
  const options: ServiceOptions = {
    ...given,
    ...{ database: replicas?.database ?? database, clock, tracing },
  }
  const encrypter = createEncrypter(options.masterKey, options.otherKeys)
  const keyHeartbeat = keysOf(options, encrypter)
  await keyHeartbeat.start()
  const drain = new AbortController()
  const draining = drain.signal
  const domains = composeDomains(options, encrypter)
  const { metrics, common, webhooks, events, keyUses, payments, settlements, exchange, limits } =
    domains
  const console = config.console.enabled ? { ...domains.sessions, limits, clock, log } : undefined
  const background = createBackgroundWork({ options, domains, encrypter, draining })
  const open = () =>
    openServers({
      ...{ config, log, tls, console, notifications: payments.notifications },
      invokers: composeInvokers({ options, domains, encrypter, draining }),
      exposition: channel?.exposition(metrics, common) ?? createExposition(metrics),
      ready: createReady(database, payments.batches, draining),
      notes: () => [clock.note()].filter((note) => note !== undefined),
    })
  const { http, grpc, ops } = await clock
    .start()
    .then(limits.known.load)
    .then(open)
    .catch(async (error: unknown) => {
      await Promise.all([keyHeartbeat.stop(), clock.stop()])
      throw error
    })
  replicas?.start(metrics)
  registerServerMetrics(metrics, { http, grpc, ...(ops && { ops }) }, clock)
  const { recordingPool } = database
  const connected = Array.from({ length: recordingPool.options.max }, () =>
    recordingPool.query('select 1'),
  )
  await Promise.allSettled(connected)
  events.start()
  webhooks.start()
  keyUses.start()
  payments.breakers.start()
  if (channel === undefined) background.start()
  return {
    httpPort: http.port,
    grpcPort: grpc.port,
    opsPort: ops?.port,
    metrics,
    startBackground: background.start,
    onCommit: events.sequence,
    deliveriesDue: webhooks.deliveriesDue,
    async close() {
      drain.abort()
      const servers = [http, grpc].map((server) => server.close(DRAIN_MS))
      await Promise.all([...servers, webhooks.stop(), settlements.stop()])
      await Promise.all([events.stop(), keyUses.stop(), payments.stop(), background.stop()])
      await replicas?.stop()
      // Last, so that an operator sees the stop.
      await Promise.all([ops?.close(0), keyHeartbeat.stop(), exchange.stop(), clock.stop()])
      await tracing?.close()
    },
  }
}

function keysOf(options: ServiceOptions, encrypter: Encrypter): KeyHeartbeat {
  const { database, clock, log, rereadKeys } = options
  return createKeyHeartbeat({
    id: newId('ins', clock.now()),
    orm: database.orm,
    encrypter,
    tables: encryptedTables(database),
    log,
    reread: rereadKeys,
    onFirstKey: () => beginAuditLog(database.pool, encrypter),
  })
}
