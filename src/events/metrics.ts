import type { Pool } from 'pg'
import { Gauge, type Registry } from 'prom-client'
import { type Lag, ROWS_COUNTED_MAX, readLag } from './lag.ts'
import type { Tail } from './tail.ts'

/**
 * Gauges of the event pipeline, read when somebody asks.
 *
 * @param own those of this process
 * @param common those of the database, which every process would tell alike
 */
export function registerEventMetrics(
  { own, common }: Readonly<Record<'own' | 'common', Registry>>,
  pool: Pool,
  tail: Tail,
): void {
  let reading: Promise<Lag | undefined> | undefined
  /** One read for all gauges of a scrape: they are asked in one turn. */
  const read = (): Promise<Lag | undefined> => {
    // Without the database there is nothing to tell, and the other metrics matter the more.
    reading ??= readLag(pool)
      .catch(() => undefined)
      .finally(() => {
        reading = undefined
      })
    return reading
  }
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
    'Age of the oldest committed event that has no place in the log yet.',
    ({ seconds }) => Math.max(0, seconds ?? 0),
  )
  gauge(
    'inflow_database_oldest_xid_age',
    'Transactions between the oldest one running in the server and the newest: an idle one grows it.',
    ({ xid_age }) => Number(xid_age),
  )
  gauge('inflow_event_log_end', 'The last position of the event log.', ({ position }) =>
    Number(position),
  )
  gauge(
    'inflow_sequencer_lag_rows',
    `Committed events that have no place in the log yet, counted to ${ROWS_COUNTED_MAX}.`,
    ({ rows }) => rows,
  )
  new Gauge({
    name: 'inflow_event_subscribers_waiting',
    help: 'Subscribers that have seen everything and wait for more.',
    registers: [own],
    collect() {
      this.set(tail.sizes().waiting)
    },
  })
  new Gauge({
    name: 'inflow_event_tail_entries',
    help: 'Events kept in memory for subscribers.',
    registers: [own],
    collect() {
      this.set(tail.sizes().entries)
    },
  })
}
