import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import { createLoop, type Loop } from '../core/loop.ts'

/** The most events that one statement deletes, and the most statements of one run. */
const ROWS_MAX = 5_000
const STATEMENTS_MAX = 1_000

const DAY_MS = 86_400_000

/** The interval between runs. */
const EVERY_MS = 600_000

interface Options {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly retentionDays: number
  /** The last position whose events, and all before it, are not needed for webhook deliveries. */
  readonly deliveredUpTo: () => Promise<bigint>
}

/** Deletes old events in batches. */
export interface Retention extends Pick<Loop, 'start' | 'stop'> {
  /** Runs once, until done or aborted. @returns the number of deleted events */
  run(signal?: AbortSignal): Promise<number>
}

/**
 * Deletes events that are older than the retention and that no delivery needs, oldest first.
 * Positions have no gaps and times increase with them, so a run reads only the events that it
 * deletes.
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

/**
 * Raises the floor before events are deleted, so that a reader gets `expired_cursor` rather than a
 * log with missing events.
 */
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

/** Deletes events up to the floor. An event that changed a balance leaves an archived entry. */
export async function deleteBelowFloor(pool: Pool): Promise<number> {
  const result = await pool.query<{ rows: number }>({
    name: 'event-delete',
    text: `with unlogged as (
        delete from event_log where position in (
          select position from event_log
          where position <= (select floor from sequencer where id = 1)
          order by position limit $1
        ) returning outbox_seq, business_id, live, business_sequence, logged_at
      ), deleted as (
        delete from outbox where seq in (select outbox_seq from unlogged) returning *
      ), archived as (
        insert into archived_entry (business_id, live, business_sequence, kind, subject_id,
          occurred_at, logged_at, pending_minor, available_minor, fees_minor)
        select u.business_id, u.live, u.business_sequence, d.kind, d.subject_id, d.occurred_at,
          u.logged_at, d.pending_minor, d.available_minor, d.fees_minor
        from unlogged u join deleted d on d.seq = u.outbox_seq
        where (d.pending_minor, d.available_minor, d.fees_minor) <> (0, 0, 0)
      )
      select count(*)::int as rows from unlogged`,
    values: [ROWS_MAX],
  })
  return result.rows[0]?.rows ?? 0
}
