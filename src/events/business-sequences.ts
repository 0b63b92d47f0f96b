import { setTimeout as delay } from 'node:timers/promises'
import type { Pool, PoolClient } from 'pg'
import type { Queryable } from '../postgres/in-transaction.ts'

/** A business in one mode. Each mode has its own sequence numbers. */
interface BusinessMode {
  readonly businessId: string
  readonly live: boolean
}

interface SequenceBounds {
  readonly first: bigint
  readonly last: bigint
}

/** The first and last sequence number of a business in the log; undefined without events. */
export async function findSequenceBounds(
  client: Queryable,
  { businessId, live }: BusinessMode,
): Promise<SequenceBounds | undefined> {
  const { rows } = await client.query<{ first: string | null; last: string | null }>(
    `select least(
        (select business_sequence from archived_entry where business_id = $1 and live = $2
          order by business_sequence limit 1),
        (select business_sequence from event_log where business_id = $1 and live = $2
          order by business_sequence limit 1)) as first,
      greatest(
        (select business_sequence from archived_entry where business_id = $1 and live = $2
          order by business_sequence desc limit 1),
        (select business_sequence from event_log where business_id = $1 and live = $2
          order by business_sequence desc limit 1)) as last`,
    [businessId, live],
  )
  const { first = null, last = null } = rows[0] ?? {}
  return first === null || last === null ? undefined : { first: BigInt(first), last: BigInt(last) }
}

/** The booking time of the first event at or above a sequence number. */
async function findBookedAt(
  client: Queryable,
  { businessId, live }: BusinessMode,
  from: bigint,
): Promise<number | undefined> {
  const { rows } = await client.query<{ logged_at_ms: number }>(
    `select round(date_part('epoch', logged_at) * 1000) as logged_at_ms from (
        (select business_sequence, logged_at from archived_entry
        where business_id = $1 and live = $3 and business_sequence >= $2
        order by business_sequence limit 1)
        union all
        (select business_sequence, logged_at from event_log
        where business_id = $1 and live = $3 and business_sequence >= $2
        order by business_sequence limit 1)
      ) event order by business_sequence limit 1`,
    [businessId, from, live],
  )
  return rows[0]?.logged_at_ms
}

/**
 * The last sequence number of a business below the first event that was booked at `atMs` or later.
 * Booking times rise with sequence numbers, so a binary search finds it. An event is booked when
 * the sequencer numbers it, shortly after it occurred.
 *
 * @param bounds the first and last sequence number of the business
 */
export async function lastSequenceBefore(
  client: Queryable,
  key: BusinessMode,
  atMs: number,
  bounds: SequenceBounds,
): Promise<bigint> {
  let low = bounds.first
  let high = bounds.last + 1n
  while (low < high) {
    // Rounds down, also for negative numbers.
    const middle = (low + high) >> 1n
    const bookedAtMs = await findBookedAt(client, key, middle)
    if (bookedAtMs !== undefined && bookedAtMs < atMs) low = middle + 1n
    else high = middle
  }
  return low - 1n
}

/** Numbers follow a commit within milliseconds, unless the sequencer is held up. */
const POLL_MS = 10

const WAIT_MAX_MS = 2_000

/** Waits until the events of a business and mode that are committed now have their numbers, or for two seconds. */
export async function awaitNumbers(
  pool: Pool,
  { businessId, live }: BusinessMode,
  signal: AbortSignal,
): Promise<void> {
  /** The last of these events that has no number yet; null: all have numbers. */
  let last: string | null = `${2n ** 62n}`
  for (let waitedMs = 0; waitedMs < WAIT_MAX_MS && !signal.aborted; waitedMs += POLL_MS) {
    const { rows }: { rows: { last: string | null }[] } = await pool.query({
      name: 'event-unnumbered',
      text: `with state as materialized (
          select snapshot, target, done_seq, base_seq, low_seq from sequencer
        )
        select max(seq) as last from (
          select o.seq from outbox o, state
            where o.seq > (select low_seq from state)
              and o.xid >= (select pg_snapshot_xmax(snapshot) from state)
              and o.xid < pg_snapshot_xmax(pg_current_snapshot())
              and o.business_id = $1 and o.live = $2
              and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
                and pg_visible_in_snapshot(o.xid, state.target))
          union all
          select o.seq from outbox o, state
            where o.seq > (select low_seq from state)
              and o.xid = any (array(select pg_snapshot_xip(snapshot) from state))
              and o.xid < pg_snapshot_xmax(pg_current_snapshot())
              and o.business_id = $1 and o.live = $2
              and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
                and pg_visible_in_snapshot(o.xid, state.target))
        ) unnumbered where seq <= $3`,
      values: [businessId, live, last],
    })
    last = rows[0]?.last ?? null
    if (last === null) return
    await delay(POLL_MS)
  }
}

/**
 * Whether the running sums of a balance equal the sums of its sequenced events.
 *
 * @param after sums are added up from the last balance snapshot at or below this sequence number
 */
export async function hasConsistentSums(
  client: PoolClient,
  { businessId, live }: BusinessMode,
  after: bigint,
): Promise<boolean> {
  const { rows } = await client.query<{ is_consistent: boolean }>(
    `with start as (
        select last_sequence as business_sequence, pending_minor, available_minor, fees_minor
        from event_business_counter
        where business_id = $1 and live = $2 and last_sequence <= $3
        order by last_sequence desc limit 1
      ), part as (
        select pending_minor, available_minor, fees_minor from start
        union all
        select e.pending_minor, e.available_minor, e.fees_minor from money_event e
        where e.business_id = $1 and e.live = $2
          and e.business_sequence > coalesce((select business_sequence from start), -(2::numeric ^ 62)::bigint)
      )
      select (c.pending_minor, c.available_minor, c.fees_minor) = (
        select coalesce(sum(pending_minor), 0), coalesce(sum(available_minor), 0), coalesce(sum(fees_minor), 0)
        from part) as is_consistent
      from (select * from event_business_counter where business_id = $1 and live = $2
        order by last_sequence desc limit 1) c`,
    [businessId, live, after],
  )
  return rows[0]?.is_consistent ?? true
}
