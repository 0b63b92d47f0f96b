import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import { createLoop, type Loop } from '../core/loop.ts'

/** How many events one statement deletes, and how many statements one run makes. */
const ROWS_MAX = 5_000
const STATEMENTS_MAX = 1_000

const DAY_MS = 86_400_000

/** Between runs. */
const EVERY_MS = 600_000

interface Options {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly retentionDays: number
  /** The last position that nobody needs any more to deliver what is not delivered yet. */
  readonly deliveredUpTo: () => Promise<bigint>
}

/** Deletes old events, a little at a time. */
export interface Retention extends Pick<Loop, 'start' | 'stop'> {
  /** One run, until the signal aborts. @returns how many events were deleted */
  run(signal?: AbortSignal): Promise<number>
}

/**
 * What was logged longer ago than the retention and needs no delivery is deleted, oldest first.
 * Positions are dense and times rise with them, so a run looks at what it deletes and no more.
 */
export function createRetention(options: Options): Retention {
  const { pool, clock, log, retentionDays, deliveredUpTo } = options
  const run = async (signal?: AbortSignal): Promise<number> => {
    let deleted = 0
    for (let i = 0; i < STATEMENTS_MAX && !signal?.aborted; i++) {
      const cutoffMs = clock.now() - retentionDays * DAY_MS
      await raiseFloor(pool, cutoffMs, await deliveredUpTo())
      const rows = await deleteBelowFloor(pool)
      deleted += rows
      if (rows < ROWS_MAX) break
    }
    return deleted
  }
  const loop = createLoop({
    name: 'event retention',
    log,
    everyMs: EVERY_MS,
    turn: async (signal) => void (await run(signal)),
  })
  return { start: loop.start, stop: loop.stop, run }
}

/** First the floor, so that a reader is refused before it could miss what is being deleted. */
async function raiseFloor(pool: Pool, cutoffMs: number, deliveredUpTo: bigint): Promise<void> {
  await pool.query({
    name: 'event-floor-raise',
    text: `with old as (
        select max(position) as position from (
          select l.position, l.logged_at from event_log l
          where l.position > (select floor from sequencer where id = 1)
          order by l.position limit $1
        ) oldest where logged_at < $2 and position <= $3
      )
      update sequencer set floor = old.position from old where id = 1 and old.position > floor`,
    values: [ROWS_MAX, new Date(cutoffMs), deliveredUpTo],
  })
}

/** What an event did to balances is kept as a line of its business's books. */
export async function deleteBelowFloor(pool: Pool): Promise<number> {
  const result = await pool.query<{ rows: number }>({
    name: 'event-delete',
    text: `with unlogged as (
        delete from event_log where position in (
          select position from event_log
          where position <= (select floor from sequencer where id = 1)
          order by position limit $1
        ) returning outbox_seq, business_id, live, business_sequence, logged_at
      ), gone as (
        delete from outbox where seq in (select outbox_seq from unlogged) returning *
      ), kept as (
        insert into archived_entry (business_id, live, business_sequence, kind, subject_id, occurred_at,
          logged_at, pending_minor, available_minor, fees_minor)
        select u.business_id, u.live, u.business_sequence, g.kind, g.subject_id, g.occurred_at, u.logged_at,
          g.pending_minor, g.available_minor, g.fees_minor
        from unlogged u join gone g on g.seq = u.outbox_seq
        where (g.pending_minor, g.available_minor, g.fees_minor) <> (0, 0, 0)
      )
      select count(*)::int as rows from unlogged`,
    values: [ROWS_MAX],
  })
  return result.rows[0]?.rows ?? 0
}
