import { firstIdAt } from '../core/ids.ts'
import { textArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'

/** An event, as a search shows it. */
interface FoundEvent {
  readonly id: string
  readonly kind: string
  /** Empty: the event belongs to no business. */
  readonly businessId: string
  readonly live: boolean
  readonly position: bigint
  readonly occurredAtMs: number
}

/** @returns undefined if it is not in the log, or has expired */
export async function findEvent(on: Queryable, id: string): Promise<FoundEvent | undefined> {
  const { rows } = await on.query<Omit<FoundEvent, 'position'> & { readonly position: string }>({
    name: 'event-log-find',
    text: `with logged as materialized (select * from event_log where event_id = $1)
      select l.event_id as id, o.kind, l.business_id as "businessId", l.live, l.position,
        round(date_part('epoch', o.occurred_at) * 1000) as "occurredAtMs"
      from logged l join outbox o on o.seq = l.outbox_seq`,
    values: [id],
  })
  const [row] = rows
  return row && { ...row, position: BigInt(row.position) }
}

/** An event with its position in the log. */
export interface LoggedEvent {
  readonly eventId: string
  readonly kind: string
  readonly position: bigint
  readonly businessSequence: bigint
  readonly occurredAtMs: number
  /** When it got its position. */
  readonly loggedAtMs: number
}

/** The subject whose events to find, and the times at which they occurred. */
interface Subject {
  readonly subjectId: string
  readonly businessId: string
  /** In milliseconds, exactly. */
  readonly occurredAtMs: readonly number[]
}

/**
 * The events about a subject that have not expired, in the order of the log. Events have no index by subject, because it
 * would cost every payment an entry. Their ids begin with the millisecond in which they occurred, so the summary index of
 * ids finds the few events of that millisecond.
 */
export async function findEventsOf(
  on: Queryable,
  { subjectId, businessId, occurredAtMs }: Subject,
  limit: number,
): Promise<readonly LoggedEvent[]> {
  type Row = Omit<LoggedEvent, 'position' | 'businessSequence'> & {
    readonly position: string
    readonly sequence: string
  }
  const times = [...new Set(occurredAtMs)]
  const { rows } = await on.query<Row>({
    name: 'event-log-find-subject',
    text: `select l.event_id as "eventId", o.kind, l.position, l.business_sequence as sequence,
        round(date_part('epoch', o.occurred_at) * 1000) as "occurredAtMs",
        round(date_part('epoch', l.logged_at) * 1000) as "loggedAtMs"
      from unnest($1::text[], $2::text[]) as r(first, next)
      cross join lateral (select * from event_log
        where event_id >= r.first and event_id < r.next and business_id = $4 offset 0) l
      join outbox o on o.seq = l.outbox_seq
      where o.subject_id = $3 and l.position > (select floor from event_retention where id = 1)
      order by l.position limit $5`,
    values: [
      textArray(times.map((atMs) => firstIdAt('evt', atMs))),
      textArray(times.map((atMs) => firstIdAt('evt', atMs + 1))),
      subjectId,
      businessId,
      limit,
    ],
  })
  return rows.map(({ position, sequence, ...event }) => ({
    ...event,
    position: BigInt(position),
    businessSequence: BigInt(sequence),
  }))
}
