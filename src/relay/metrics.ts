import type { Pool } from 'pg'
import { Counter, Gauge } from 'prom-client'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import { readLogState } from '../events/log-state.ts'
import { readLog } from '../events/read-log.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Relay } from './relay.ts'

const PERIOD_MS = 1_000

/** Below the time that a scrape has. */
const TIMEOUT_MS = 500

/** Registers the metrics of the instance's relay. */
export function registerRelayMetrics(
  { database: { durablePool }, clock, metrics }: Runtime,
  relay: Relay,
): void {
  new Gauge({
    name: 'inflow_relay_up',
    help: 'Whether the relay works: 1, also while another instance publishes; 0: the broker or the database fails.',
    registers: [metrics],
    collect() {
      this.set(Number(relay.isUp()))
    },
  })
  registerSampledGauges(
    metrics,
    () => readLag(durablePool, relay.publishedUpTo(), clock.now()),
    [
      {
        name: 'inflow_relay_lag_rows',
        help: 'Events of the log that are not published yet.',
        measure: (lag) => lag?.rows,
      },
      {
        name: 'inflow_relay_lag_seconds',
        help: 'Age of the oldest event of the log that is not published yet; 0: all are.',
        measure: (lag) => lag?.seconds,
      },
    ],
    { periodMs: PERIOD_MS, timeoutMs: TIMEOUT_MS },
  )
  new Counter({
    name: 'inflow_relay_events_total',
    help: 'Events that this instance published.',
    registers: [metrics],
    collect() {
      this.reset()
      this.inc(relay.published())
    },
  })
}

/** How far the stream is behind the log; undefined: not known yet. */
async function readLag(pool: Pool, publishedUpTo: bigint | undefined, nowMs: number) {
  if (publishedUpTo === undefined) return undefined
  const { end } = await readLogState(pool)
  const { entries } = await readLog(pool, publishedUpTo + 1n, 1)
  const [oldest] = entries
  return {
    rows: Math.max(0, Number(end.position - publishedUpTo)),
    seconds: oldest === undefined ? 0 : Math.max(0, nowMs - oldest.occurredAtMs) / 1_000,
  }
}
