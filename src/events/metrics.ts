import type { Pool } from 'pg'
import { Gauge, type Registry } from 'prom-client'
import type { Tail } from './tail.ts'

/** How many waiting rows are counted; more is simply many. */
const ROWS_COUNTED_MAX = 100_000

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

interface Lag {
  rows: number
  seconds: number | null
  xid_age: string
  position: string
}

async function readLag(pool: Pool): Promise<Lag | undefined> {
  const result = await pool.query<Lag>({
    name: 'event-lag',
    text: `select s.position,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint
          - pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xid_age,
        w.rows, w.seconds
      from sequencer s, lateral (
        select count(*)::int as rows,
          extract(epoch from now() - min(occurred_at))::float8 as seconds
        from (
          select occurred_at from outbox
          where xid >= pg_snapshot_xmax(s.snapshot) and seq > s.done_seq limit $1
        ) waiting
      ) w where s.id = 1`,
    values: [ROWS_COUNTED_MAX],
  })
  return result.rows[0]
}
