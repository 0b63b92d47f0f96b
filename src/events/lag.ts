import type { Pool } from 'pg'

/** The most waiting rows that are counted, to bound the cost of a scrape. */
export const ROWS_COUNTED_MAX = 100_000

/** The events that wait for a position in the log. */
export interface Lag {
  rows: number
  /** Seconds since the oldest of them occurred; null if there are none. */
  seconds: number | null
  xid_age: string
  position: string
  epoch: number
}

export async function readLag(pool: Pool): Promise<Lag | undefined> {
  const result = await pool.query<Lag>({
    name: 'event-lag',
    text: `select s.position, s.epoch,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint
          - pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xid_age,
        w.rows, w.seconds
      from sequencer s, lateral (
        select count(*)::int as rows,
          extract(epoch from now() - min(occurred_at))::float8 as seconds
        from (
          select occurred_at from outbox
          where xid >= pg_snapshot_xmax(s.snapshot) and xid < pg_snapshot_xmax(pg_current_snapshot())
            and seq > greatest(s.done_seq, s.low_seq) limit $1
        ) waiting
      ) w`,
    values: [ROWS_COUNTED_MAX],
  })
  return result.rows[0]
}

/** Seconds since the oldest event that has not expired was logged; undefined if there is none. */
export async function readLogAge(pool: Pool): Promise<number | undefined> {
  const result = await pool.query<{ seconds: number }>(
    `select extract(epoch from clock_timestamp() - logged_at)::float8 as seconds
      from event_log where position > (select floor from event_retention where id = 1)
      order by position limit 1`,
  )
  return result.rows[0]?.seconds
}
