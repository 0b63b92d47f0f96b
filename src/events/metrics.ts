import type { Pool } from 'pg'
import { Gauge, type Registry } from 'prom-client'
import { type Lag, ROWS_COUNTED_MAX, readLag } from './lag.ts'
import type { Tail } from './tail.ts'

/**
 * Registers the gauges of the event pipeline, which are read at each scrape.
 *
 * @param own the registry for the gauges of this process
 * @param common the registry for the gauges of the database, which are the same in every process
 */
export function registerEventMetrics(
  { own, common }: Readonly<Record<'own' | 'common', Registry>>,
  pool: Pool,
  tail: Tail,
): void {
  const read = createLagReader(pool)
  const gauge = (name: string, help: string, measure: (lag: Lag) => number) =>
    new Gauge({
      name,
      help,
      registers: [common],
      async collect() {
        const lag = await read()
        if (lag) this.set(measure(lag))
      },
    })
  gauge(
    'inflow_sequencer_lag_seconds',
    'Age of the oldest committed event that has no position in the log yet.',
    ({ seconds }) => Math.max(0, seconds ?? 0),
  )
  gauge(
    'inflow_database_oldest_xid_age',
    'Age of the oldest running transaction, in transaction ids; idle transactions raise it.',
    ({ xid_age }) => Number(xid_age),
  )
  gauge('inflow_event_log_end', 'Position of the last event in the log.', ({ position }) =>
    Number(position),
  )
  gauge(
    'inflow_event_epoch',
    'Epoch of the event log: 1 at first; it rises after a failover or a restore.',
    ({ epoch }) => epoch,
  )
  gauge(
    'inflow_sequencer_lag_rows',
    `Committed events that have no position in the log yet, counted up to ${ROWS_COUNTED_MAX}.`,
    ({ rows }) => rows,
  )
  new Gauge({
    name: 'inflow_event_subscribers_waiting',
    help: 'Subscribers that have received all events and wait for more.',
    registers: [own],
    collect() {
      this.set(tail.sizes().waiting)
    },
  })
  new Gauge({
    name: 'inflow_event_tail_entries',
    help: 'Events in memory for subscribers.',
    registers: [own],
    collect() {
      this.set(tail.sizes().entries)
    },
  })
}

/** One query for all gauges of a scrape: they are collected in the same tick. */
function createLagReader(pool: Pool): () => Promise<Lag | undefined> {
  let reading: Promise<Lag | undefined> | undefined
  return () => {
    // If the database is unavailable, these gauges are left out and the other metrics still work.
    reading ??= readLag(pool)
      .catch(() => undefined)
      .finally(() => {
        reading = undefined
      })
    return reading
  }
}
