import type { Pool } from 'pg'
import { Gauge, type Registry } from 'prom-client'
import { ROWS_COUNTED_MAX, readLag } from './lag.ts'
import type { Tail } from './tail.ts'

/** Gauges of the event pipeline, read when somebody asks. */
export function registerEventMetrics(metrics: Registry, pool: Pool, tail: Tail): void {
  const gauge = (name: string, help: string, labels: readonly string[] = []) =>
    new Gauge({ name, help, labelNames: [...labels], registers: [metrics] })
  const lagSeconds = gauge(
    'inflow_sequencer_lag_seconds',
    'Age of the oldest committed event that has no place in the log yet.',
  )
  const oldestXid = gauge(
    'inflow_database_oldest_xid_age',
    'Transactions between the oldest one running in the server and the newest: an idle one grows it.',
  )
  const end = gauge('inflow_event_log_end', 'The last position of the event log.')
  new Gauge({
    name: 'inflow_sequencer_lag_rows',
    help: `Committed events that have no place in the log yet, counted to ${ROWS_COUNTED_MAX}.`,
    registers: [metrics],
    async collect() {
      // Without the database there is nothing to tell, and the other metrics matter the more.
      const row = await readLag(pool).catch(() => undefined)
      if (row === undefined) return
      this.set(row.rows)
      lagSeconds.set(Math.max(0, row.seconds ?? 0))
      oldestXid.set(Number(row.xid_age))
      end.set(Number(row.position))
    },
  })
  new Gauge({
    name: 'inflow_event_subscribers_waiting',
    help: 'Subscribers that have seen everything and wait for more.',
    registers: [metrics],
    collect() {
      this.set(tail.sizes().waiting)
    },
  })
  new Gauge({
    name: 'inflow_event_tail_entries',
    help: 'Events kept in memory for subscribers.',
    registers: [metrics],
    collect() {
      this.set(tail.sizes().entries)
    },
  })
}
