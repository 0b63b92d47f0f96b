import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Config } from '../config/config.ts'
import type { Clock } from '../core/clock.ts'
import type { Database } from '../postgres/orm.ts'
import { registerRelayMetrics } from '../relay/metrics.ts'
import { createRelay, type Relay } from '../relay/relay.ts'
import type { Tracing } from '../tracing/tracing.ts'

const DAY_MS = 86_400_000

interface Options {
  readonly config: Config
  readonly database: Database
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Registry
  readonly tracing: Tracing | undefined
}

/** The relay that RELAY_URL asks for. Its metrics appear once it starts. */
export function composeRelay(options: Options): Relay | undefined {
  const { config, database, clock, log, metrics } = options
  const { relay: settings, eventRetentionDays } = config
  if (settings === undefined) return undefined
  const { pool } = database
  const relay = createRelay({
    pool,
    log,
    tracing: options.tracing,
    random: Math.random,
    format: settings.format,
    async openSink() {
      // Loading the client of NATS takes time, which only those who use it spend.
      const { openJetStreamSink } = await import('../relay/jetstream-sink.ts')
      const retentionMs = eventRetentionDays * DAY_MS
      return openJetStreamSink(settings, { replicas: settings.replicas, retentionMs })
    },
  })
  return {
    ...relay,
    start(afterMs) {
      registerRelayMetrics(metrics, { relay, pool, clock })
      relay.start(afterMs)
    },
  }
}
