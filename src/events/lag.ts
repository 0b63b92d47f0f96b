import type { Pool } from 'pg'

/** How many waiting rows are counted; more is simply many. */
export const ROWS_COUNTED_MAX = 100_000

/** What waits for its place in the log. */
export interface Lag {
  rows: number
  /** Since the oldest of them occurred; null without any. */
  seconds: number | null
  xid_age: string
  position: string
}

export async function readLag(pool: Pool): Promise<Lag | undefined> {
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

/** Seconds since the oldest event that is kept was logged; undefined without any. */
export async function readLogAge(pool: Pool): Promise<number | undefined> {
  const result = await pool.query<{ seconds: number }>(
    `select extract(epoch from clock_timestamp() - logged_at)::float8 as seconds
      from event_log order by position limit 1`,
  )
  return result.rows[0]?.seconds
}
