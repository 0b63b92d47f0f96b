import type { Pool } from 'pg'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Clock } from '../core/clock.ts'
import { readLogState } from '../events/log-state.ts'
import { readLog } from '../events/read-log.ts'
import type { Relay } from './relay.ts'

interface Dependencies {
  readonly relay: Relay
  readonly pool: Pool
  readonly clock: Clock
}

/** Registers the metrics of the instance's relay. Its lag is read at each scrape. */
export function registerRelayMetrics(
  metrics: Registry,
  { relay, pool, clock }: Dependencies,
): void {
  const gauge = (name: string, help: string, measure: () => Promise<number | undefined>) =>
    new Gauge({
      name,
      help,
      registers: [metrics],
      async collect() {
        // If the database is unavailable, this gauge is left out and the other metrics still work.
        const value = await measure().catch(() => undefined)
        if (value === undefined) this.reset()
        else this.set(value)
      },
    })
  gauge(
    'inflow_relay_up',
    'Whether the relay works: 1, also while another instance publishes; 0: the broker or the database fails.',
    async () => Number(relay.isUp()),
  )
  gauge('inflow_relay_lag_rows', 'Events of the log that are not published yet.', async () => {
    const publishedUpTo = relay.publishedUpTo()
    if (publishedUpTo === undefined) return undefined
    const { end } = await readLogState(pool)
    return Math.max(0, Number(end.position - publishedUpTo))
  })
  gauge(
    'inflow_relay_lag_seconds',
    'Age of the oldest event of the log that is not published yet; 0: all are.',
    async () => {
      const publishedUpTo = relay.publishedUpTo()
      if (publishedUpTo === undefined) return undefined
      const { entries } = await readLog(pool, publishedUpTo + 1n, 1)
      const [oldest] = entries
      return oldest === undefined ? 0 : Math.max(0, clock.now() - oldest.occurredAtMs) / 1_000
    },
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
