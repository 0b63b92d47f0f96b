import type { Pool } from 'pg'
import { epochMs } from '../store/epoch-ms.ts'
import type { Queryable } from '../store/in-transaction.ts'
import { moneyEvents } from './money-events.ts'
import type { Balance, Book } from './settlement.ts'

/** One line of a business's books: what one of its events did to its balances. */
export interface Entry extends Balance {
  readonly sequence: bigint
  readonly kind: string
  readonly bookedAtMs: number
  /** A transaction or a settlement. */
  readonly subjectId: string
  /** Of a transaction; else empty. */
  readonly sessionId: string
}

interface Row {
  business_sequence: string
  kind: string
  logged_at_ms: number
  subject_id: string
  session_id: string | null
  pending_minor: string
  available_minor: string
  fees_minor: string
}

/** A range of the events of a business and mode: after one number, up to another. */
interface Range extends Book {
  readonly after: bigint
  readonly upTo: bigint
}

const ENTRIES = moneyEvents({
  where: ({ line }) =>
    `${line}.business_id = $1 and ${line}.live = $5
      and ${line}.business_sequence > $2 and ${line}.business_sequence <= $3`,
  order: 'asc',
  limit: '$4',
})

const fromNumber = (table: string) =>
  `(select business_sequence, logged_at from ${table}
    where business_id = $1 and live = $3 and business_sequence >= $2
    order by business_sequence limit 1)`

/** Entries of a range, in order. */
export async function listRange(pool: Pool, range: Range, limit: number): Promise<Entry[]> {
  const { rows } = await pool.query<Row>(
    `select e.business_sequence, e.kind, ${epochMs('e.logged_at')} as logged_at_ms, e.subject_id,
        t.session_id, e.pending_minor, e.available_minor, e.fees_minor
      from ${ENTRIES} e left join transaction t on t.id = e.subject_id
      order by e.business_sequence`,
    [range.businessId, range.after, range.upTo, limit, range.live],
  )
  return rows.map((row) => ({
    sequence: BigInt(row.business_sequence),
    kind: row.kind,
    bookedAtMs: row.logged_at_ms,
    subjectId: row.subject_id,
    sessionId: row.session_id ?? '',
    ...toBalance(row),
  }))
}

/** What the events of a range did, in sum. */
export async function sumRange(pool: Pool, range: Range): Promise<Balance> {
  const { rows } = await pool.query<Row>(
    `select coalesce(sum(pending_minor), 0) as pending_minor,
        coalesce(sum(available_minor), 0) as available_minor,
        coalesce(sum(fees_minor), 0) as fees_minor
      from money_event
      where business_id = $1 and live = $4 and business_sequence > $2 and business_sequence <= $3`,
    [range.businessId, range.after, range.upTo, range.live],
  )
  return toBalance(rows[0] as Row)
}

/** The books as a completed settlement left them: the last one that ends at a number or before. */
export async function findBooks(
  pool: Pool,
  { businessId, live }: Book,
  upTo: bigint,
): Promise<{ readonly at: bigint; readonly balance: Balance } | undefined> {
  const { rows } = await pool.query<Row & { at: string }>(
    `select to_sequence as at, books_pending_minor as pending_minor,
        books_available_minor as available_minor, books_fees_minor as fees_minor
      from settlement where business_id = $1 and live = $3 and to_sequence <= $2 and status = 'COMPLETED'
      order by to_sequence desc limit 1`,
    [businessId, upTo, live],
  )
  return rows[0] && { at: BigInt(rows[0].at), balance: toBalance(rows[0]) }
}

/** The numbers of the first and the last entry of a business; undefined when it has none. */
export async function findEnds(
  client: Queryable,
  { businessId, live }: Book,
): Promise<{ readonly first: bigint; readonly last: bigint } | undefined> {
  const end = (direction: 'asc' | 'desc') =>
    `(select business_sequence from ${moneyEvents({
      where: ({ line }) => `${line}.business_id = $1 and ${line}.live = $2`,
      order: direction,
      limit: '1',
    })} e)`
  const { rows } = await client.query<{ first: string | null; last: string | null }>(
    `select ${end('asc')} as first, ${end('desc')} as last`,
    [businessId, live],
  )
  const { first = null, last = null } = rows[0] ?? {}
  return first === null || last === null ? undefined : { first: BigInt(first), last: BigInt(last) }
}

/** When the first event was booked that has a number or a later one, whether of money or not. */
export async function findBookedAt(
  client: Queryable,
  { businessId, live }: Book,
  from: bigint,
): Promise<number | undefined> {
  const { rows } = await client.query<{ logged_at_ms: number }>(
    `select ${epochMs('logged_at')} as logged_at_ms
      from (${fromNumber('ledger_line')} union all ${fromNumber('event_log')}) e
      order by business_sequence limit 1`,
    [businessId, from, live],
  )
  return rows[0]?.logged_at_ms
}

function toBalance(row: Pick<Row, 'pending_minor' | 'available_minor' | 'fees_minor'>): Balance {
  return {
    pendingMinor: BigInt(row.pending_minor),
    availableMinor: BigInt(row.available_minor),
    feesMinor: BigInt(row.fees_minor),
  }
}
