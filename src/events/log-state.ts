import type { Pool } from 'pg'
import { Fault } from '../core/errors.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { type Cursor, decodeCursor, encodeCursor, tagOf } from './cursor.ts'

/** SQL: the timeline of the last tick. */
export const LOGGED_TIMELINE = 'select timeline from sequencer'

/** The current epoch and range of the log. */
export interface LogState {
  /** Rises after a failover or a restore; part of every cursor. */
  readonly epoch: number
  /** The last event; position 0 if the log is empty. */
  readonly end: Cursor
  /** The position of the last event that has expired; 0 if none. */
  readonly floor: bigint
}

export async function readLogState(pool: Queryable): Promise<LogState> {
  const result = await pool.query<{
    epoch: number
    position: string
    floor: string
    event_id: string | null
  }>({
    name: 'event-log-state',
    // Finds the last event by the end of the index. PostgreSQL could plan a look-up of its position as a scan of a small log.
    text: `select s.epoch, s.position, r.floor, l.event_id
      from sequencer s join event_retention r on r.id = 1
      left join lateral (select position, event_id from event_log order by position desc limit 1) l
        on l.position = s.position`,
  })
  const row = result.rows[0]
  if (row === undefined)
    throw new Error(
      'the rows of the sequencer and the retention, which the first migration inserts, are missing',
    )
  const { epoch } = row
  const end = { epoch, position: BigInt(row.position), tag: tagOf(row.event_id ?? '') }
  return { epoch, end, floor: BigInt(row.floor) }
}

/**
 * Whether the sequencer has noticed the last failover or restore, and has given a position to
 * everything that was committed before it. Until then, the log may still change its epoch.
 */
export async function isLogCurrent(pool: Pool): Promise<boolean> {
  const result = await pool.query<{ is_current: boolean }>({
    name: 'event-log-current',
    text: `select s.restored_seq is null and (s.system_identifier, s.timeline)
        = (c.system_identifier, c.timeline) as is_current
      from sequencer s cross join current_cluster() c`,
  })
  return result.rows[0]?.is_current ?? false
}

/**
 * Returns the place of a cursor, after which a reader continues.
 *
 * @throws Fault invalid_cursor: the text is not a cursor of this service; stale_cursor: events before the cursor are
 * no longer in the log; expired_cursor: events after it have expired. The last two carry a cursor from which it is safe to
 * resume, as the fact `cursor`. unavailable: the database has just failed over
 */
export async function placeOf(pool: Pool, text: string, state: LogState): Promise<Cursor> {
  const place = await toEpoch(pool, decodeCursor(text), state)
  if (place.position < state.floor) throw expiredCursor(state.epoch, state.floor)
  const { rows } = await pool.query<{ event_id: string }>({
    name: 'event-log-event',
    text: 'select event_id from event_log where position = $1',
    values: [place.position],
  })
  if (rows[0] !== undefined) checkTag(place, rows[0].event_id, state)
  return place
}

/**
 * Converts a place of an earlier epoch to a place of the current epoch, if the log is unchanged up to it.
 *
 * @throws Fault stale_cursor, unavailable: the database has just failed over
 */
export async function toEpoch(pool: Pool, place: Cursor, state: LogState): Promise<Cursor> {
  const { epoch, end, floor } = state
  if (place.epoch < epoch) {
    const { rows } = await pool.query<{ shared: string }>({
      name: 'event-epoch-shared',
      text: 'select min(start_position) as shared from event_epoch where epoch > $1',
      values: [place.epoch],
    })
    const shared = BigInt(rows[0]?.shared ?? 0)
    if (place.position > shared) throw staleCursor(epoch, shared > floor ? shared : floor)
    return { ...place, epoch }
  }
  if (place.epoch === epoch && place.position <= end.position) return place
  if (!(await isLogCurrent(pool))) {
    throw new Fault('unavailable', 'The database has failed over; its event log is not ready yet', {
      retryAfterSeconds: 1,
    })
  }
  const current = await readLogState(pool)
  // A new epoch has begun since the state was read.
  if (current.epoch > epoch) return toEpoch(pool, place, current)
  // The database was restored to an earlier state, and it is not known from which position the log differs.
  throw staleCursor(epoch, floor)
}

/** @throws Fault stale_cursor if another event is at the place */
export function checkTag(place: Cursor, eventId: string, { epoch, floor }: LogState): void {
  if (place.tag !== '' && place.tag !== tagOf(eventId)) throw staleCursor(epoch, floor)
}

function staleCursor(epoch: number, position: bigint): Fault {
  return new Fault(
    'stale_cursor',
    'Events before this cursor were lost in a failover or a restore; resume from the cursor in the error details',
    { facts: { cursor: encodeCursor({ epoch, position, tag: '' }) } },
  )
}

/** @param floor the position of the last event that has expired */
export function expiredCursor(epoch: number, floor: bigint): Fault {
  return new Fault(
    'expired_cursor',
    'Events after this cursor were deleted; the error details have the oldest valid cursor',
    { facts: { cursor: encodeCursor({ epoch, position: floor, tag: '' }) } },
  )
}

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
