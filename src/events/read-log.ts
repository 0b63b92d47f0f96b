import type { Pool } from 'pg'
import type { Owner } from '../auth/method-policy.ts'
import { DAY_MS } from '../core/durations.ts'
import { bigintArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { type LogState, readLogState } from './log-state.ts'

/** A stored event of the log. */
export interface LogEntry {
  readonly position: bigint
  readonly eventId: string
  readonly businessId: string
  /** True: live mode; false: test mode. */
  readonly live: boolean
  readonly businessSequence: bigint
  /** The epoch in which the event got its numbers. */
  readonly epoch: number
  readonly kind: string
  readonly occurredAtMs: number
  /** A serialized inflow.event.v1.Event without its position; older payloads lack the mode. */
  readonly payload: Uint8Array
}

interface Row {
  position: string
  event_id: string
  business_id: string
  live: boolean
  business_sequence: string
  epoch: number
  kind: string
  occurred_at_ms: number
  payload: Buffer
}

/**
 * Events from a position that have not expired, in order of position, and the epoch of the log in the same snapshot. The
 * row of an expired event may still exist after the partition with its content was dropped.
 *
 * @returns `epoch`: undefined if there are no events
 */
export async function readLog(
  pool: Pool,
  from: bigint,
  limit: number,
): Promise<{ readonly epoch: number | undefined; readonly entries: readonly LogEntry[] }> {
  const { rows } = await pool.query<Row & { log_epoch: number }>({
    name: 'event-log-read',
    text: `select l.position, l.event_id, l.business_id, l.live, l.business_sequence, l.epoch, o.kind,
        round(date_part('epoch', o.occurred_at) * 1000) as occurred_at_ms, o.payload, s.epoch as log_epoch
      from event_log l join outbox o on o.seq = l.outbox_seq cross join sequencer s
      where l.position >= $1 and l.position > (select floor from event_retention where id = 1)
      order by l.position limit $2`,
    values: [from, limit],
  })
  return { epoch: rows[0]?.log_epoch, entries: rows.map(toEntry) }
}

/** Events by their positions, except events whose partition was dropped. */
export async function readPositions(
  pool: Queryable,
  positions: readonly bigint[],
): Promise<LogEntry[]> {
  // `offset 0` makes the planner use the primary keys, whatever length of the array it expects.
  const result = await pool.query<Row>({
    name: 'event-log-read-positions',
    // "(select …)" hides the values from the planner, which would otherwise make a new plan for each execution.
    text: `select l.position, l.event_id, l.business_id, l.live, l.business_sequence, l.epoch, o.kind,
        round(date_part('epoch', o.occurred_at) * 1000) as occurred_at_ms, o.payload
      from unnest((select $1::int8[])) as requested(position)
      cross join lateral (select * from event_log where position = requested.position offset 0) l
      cross join lateral (select * from outbox where seq = l.outbox_seq offset 0) o`,
    values: [bigintArray(positions)],
  })
  return result.rows.map(toEntry)
}

/** Which events of a business to read. */
interface BusinessEvents {
  readonly businessId: string
  readonly live: boolean
  /** Only events with a greater sequence. */
  readonly after?: bigint
  /** Newest first, and only events with a smaller sequence; 0: any. */
  readonly before?: bigint
  /** Empty: all kinds. */
  readonly kinds: readonly string[]
  readonly limit: number
}

/** A page of events. */
interface LogPage {
  readonly entries: readonly LogEntry[]
  readonly hasMore: boolean
  /** The sequence, or the position, after which or before which the next page begins. */
  readonly nextAfter: bigint
}

/** The most events that a page passes over to find events of some kinds. */
const SCANNED_MAX = 1_000

/** Events of one business and mode after a sequence number, or before a sequence number, newest first. */
export async function readBusinessLog(
  pool: Queryable,
  { businessId, live, after = 0n, before, kinds, limit }: BusinessEvents,
): Promise<LogPage> {
  const isNewestFirst = before !== undefined
  const from = before ?? after
  const { rows } = await pool.query<{ read_up_to: string | null } & (Row | { event_id: null })>({
    ...(isNewestFirst ? READ_DOWN : READ_UP),
    // One row more than the page has room for shows whether more events follow.
    values: [businessId, live, from, limit + 1, kinds],
  })
  const entries = rows.filter((row) => row.event_id !== null).map(toEntry)
  const page = entries.slice(0, limit)
  const last = page.at(-1)?.businessSequence ?? from
  if (entries.length > limit) return { entries: page, hasMore: true, nextAfter: last }
  const readUpTo = rows[0]?.read_up_to
  if (!readUpTo) return { entries: page, hasMore: false, nextAfter: last }
  return { entries: page, hasMore: true, nextAfter: BigInt(readUpTo) }
}

const READ_UP = {
  name: 'event-log-read-business',
  text: businessPage('l.business_sequence > $3', 'asc'),
}

const READ_DOWN = {
  name: 'event-log-read-business-newest-first',
  text: businessPage(
    'l.business_sequence < coalesce(nullif($3::int8, 0), 9223372036854775807)',
    'desc',
  ),
}

/**
 * SQL: "offset 0" makes the statement look up one event after the other, and stop when the page is full. `edge` is the last
 * event that was passed over, if the scan ended at its limit.
 */
function businessPage(range: string, order: 'asc' | 'desc'): string {
  return `with page as materialized (
      select * from (
        select l.position, l.event_id, l.business_id, l.live, l.business_sequence, l.epoch, o.kind,
          round(date_part('epoch', o.occurred_at) * 1000) as occurred_at_ms, o.payload
        from event_log l
        cross join lateral (select * from outbox where seq = l.outbox_seq offset 0) o
        where l.business_id = $1 and l.live = $2 and ${range}
          and l.position > (select floor from event_retention where id = 1)
        order by l.business_sequence ${order} limit ${SCANNED_MAX}
      ) candidate where $5::text[] = '{}' or kind = any($5)
      order by business_sequence ${order} limit $4
    ), edge as (
      select case when (select count(*) from page) < $4 then (
        select business_sequence from event_log l
        where l.business_id = $1 and l.live = $2 and ${range}
          and l.position > (select floor from event_retention where id = 1)
        order by business_sequence ${order} offset ${SCANNED_MAX - 1} limit 1
      ) end as read_up_to
    )
    select edge.read_up_to, page.* from edge left join page on true
    order by business_sequence ${order}`
}

/** Which events of all businesses to read. */
interface AllEvents extends Omit<BusinessEvents, 'businessId'> {
  /** Undefined: the events of all businesses, and events that belong to no business. */
  readonly businessIds: readonly string[] | undefined
}

/** The most positions that a page without kinds passes over. This costs little, because their content is not read. */
const POSITIONS_MAX = 10_000

/** Events of a mode after a position, or before a position, newest first. */
export async function readAllEvents(pool: Queryable, events: AllEvents): Promise<LogPage> {
  const { businessIds, live, kinds, limit } = events
  const positionsMax = BigInt(kinds.length === 0 ? POSITIONS_MAX : SCANNED_MAX)
  const { low, high, ...end } = rangeOf(events, await readLogState(pool), positionsMax)
  const { rows } = await pool.query<Row>({
    ...(events.before === undefined ? READ_ALL_UP : READ_ALL_DOWN),
    values: [low, high, live, businessIds ?? null, kinds, limit + 1],
  })
  const entries = rows.slice(0, limit).map(toEntry)
  const last = entries.at(-1)
  if (last === undefined || rows.length <= limit) return { entries, ...end }
  return { entries, hasMore: true, nextAfter: last.position }
}

/**
 * The positions that a page passes over, which have no gaps: after `low`, up to `high`; and the place where the next page
 * begins if all events among them fit into this page.
 */
function rangeOf(
  { after = 0n, before }: Pick<AllEvents, 'after' | 'before'>,
  { floor, end }: LogState,
  positionsMax: bigint,
) {
  if (before === undefined) {
    const low = after > floor ? after : floor
    const high = low + positionsMax < end.position ? low + positionsMax : end.position
    return { low, high, hasMore: high < end.position, nextAfter: high > low ? high : low }
  }
  const high = before === 0n || before > end.position ? end.position : before - 1n
  const low = high - positionsMax > floor ? high - positionsMax : floor
  return { low, high, hasMore: low > floor, nextAfter: low + 1n }
}

const READ_ALL_UP = {
  name: 'event-log-read-all',
  text: allPage('asc'),
}

const READ_ALL_DOWN = {
  name: 'event-log-read-all-newest-first',
  text: allPage('desc'),
}

function allPage(order: 'asc' | 'desc'): string {
  return `select l.position, l.event_id, l.business_id, l.live, l.business_sequence, l.epoch, o.kind,
      round(date_part('epoch', o.occurred_at) * 1000) as occurred_at_ms, o.payload
    from event_log l
    cross join lateral (select * from outbox where seq = l.outbox_seq offset 0) o
    where l.position > $1 and l.position <= $2 and l.live = $3
      and ($4::text[] is null or l.business_id = any($4)) and ($5::text[] = '{}' or o.kind = any($5))
    order by l.position ${order} limit $6`
}

/** The business of an event of the log; undefined if there is no such event. */
export async function eventOwner(pool: Pool, eventId: string): Promise<Owner | undefined> {
  const result = await pool.query<Owner>({
    name: 'event-log-owner',
    text: 'select business_id as "businessId", live from event_log where event_id = $1',
    values: [eventId],
  })
  return result.rows[0]
}

function toEntry(row: Row): LogEntry {
  return {
    position: BigInt(row.position),
    eventId: row.event_id,
    businessId: row.business_id,
    live: row.live,
    businessSequence: BigInt(row.business_sequence),
    epoch: row.epoch,
    kind: row.kind,
    occurredAtMs: row.occurred_at_ms,
    payload: row.payload,
  }
}

/**
 * The position before the first event that was logged at or after a time.
 *
 * @param low the result is at least this position
 * @param high the end of the log; the result if all events are earlier
 */
export async function readPositionBefore(
  pool: Queryable,
  sinceMs: number,
  low: bigint,
  high: bigint,
): Promise<bigint> {
  // Logging times increase with positions, so a binary search needs no index on time.
  let from = low
  let to = high
  while (from < to) {
    const middle = (from + to + 1n) / 2n
    const result = await pool.query<{ earlier: boolean }>({
      name: 'event-log-logged-before',
      text: 'select logged_at < $2 as earlier from event_log where position = $1',
      values: [middle, new Date(sinceMs)],
    })
    // No row: the partition was dropped in the meantime, so the position is before all stored events.
    if (result.rows[0]?.earlier ?? true) from = middle
    else to = middle - 1n
  }
  return from
}

/** The first position whose event was logged at a time or later; if there is none, the position after the end of the log. */
export async function firstPositionAt(pool: Queryable, atMs: number): Promise<bigint> {
  const { end, floor } = await readLogState(pool)
  return (await readPositionBefore(pool, atMs, floor, end.position)) + 1n
}

/** The number of events that were logged in the last day. */
export async function eventsPerDay(pool: Pool, nowMs: number): Promise<number> {
  const { floor, end } = await readLogState(pool)
  const before = await readPositionBefore(pool, nowMs - DAY_MS, floor, end.position)
  return Number(end.position - before)
}
