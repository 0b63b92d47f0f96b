import { getBusiness } from '../businesses/get-business.ts'
import { Fault } from '../core/errors.ts'
import { findSequenceBounds, lastSequenceBefore } from '../events/business-sequences.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Database } from '../postgres/orm.ts'
import { cutScan, invalidPageToken, readPage } from '../postgres/page-token.ts'
import { findRange } from './runs/store.ts'
import {
  type Balance,
  type BalanceKey,
  type BalanceRow,
  BEFORE_ALL,
  toBalance,
} from './settlement.ts'

interface ListEntries extends BalanceKey {
  /** Booked at this time or later. */
  readonly fromMs: number | undefined
  /** Booked before this time. */
  readonly toMs: number | undefined
  /** Only the events that this settlement covers; empty: any. */
  readonly settlementId?: string | undefined
  readonly pageSize: number
  readonly pageToken: string
}

/** A statement page: `opening` plus the entries equals `closing`. */
export interface EntryPage {
  readonly entries: readonly Entry[]
  readonly opening: Balance
  readonly closing: Balance
  readonly nextPageToken: string
}

/** Where a page starts, and its opening balance. The first page fixes the end of the period. */
interface PageStart {
  /** A sequence number, exclusive. */
  readonly after: bigint
  /** A sequence number, inclusive. */
  readonly upTo: bigint
  readonly opening: Balance
}

const ZERO_BALANCE: Balance = { pendingMinor: 0n, availableMinor: 0n, feesMinor: 0n }

/** @throws Fault validation_failed (the page token), not_found (the business, or the settlement) */
export async function listEntries(database: Database, request: ListEntries): Promise<EntryPage> {
  await getBusiness(database, request.businessId)
  return database.read((on) => readEntries(on, request))
}

async function readEntries(pool: Queryable, request: ListEntries): Promise<EntryPage> {
  const { businessId, live } = request
  const page = readPage(request.pageSize, request.pageToken, 5)
  const { after, upTo, opening } = page.after
    ? parsePageStart(page.after)
    : await findPageStart(pool, request)
  const range = { businessId, live, after, upTo }
  const { entries, readUpTo } = await listRange(pool, range, page.limit + 1)
  const closing = entries.slice(0, page.limit).reduce(add, opening)
  const keyOf = (sequence: bigint) => [
    `${sequence}`,
    `${upTo}`,
    `${closing.pendingMinor}`,
    `${closing.availableMinor}`,
    `${closing.feesMinor}`,
  ]
  const edge = readUpTo === undefined ? undefined : keyOf(readUpTo)
  const { rows, nextPageToken } = cutScan(entries, page, ({ sequence }) => keyOf(sequence), edge)
  return { entries: rows, opening, closing, nextPageToken }
}

/** The opening balance is the latest known balance before the period plus the events since it. */
async function findPageStart(
  pool: Queryable,
  { businessId, live, fromMs, toMs, settlementId }: ListEntries,
): Promise<PageStart> {
  const key = { businessId, live }
  if (settlementId) {
    const range = await findRange(pool, key, settlementId)
    if (range === undefined) throw new Fault('not_found', 'There is no such settlement')
    return { ...range, opening: await balanceAt(pool, key, range.after) }
  }
  const bounds = await findSequenceBounds(pool, key)
  if (bounds === undefined) return { after: 0n, upTo: 0n, opening: ZERO_BALANCE }
  const before = (atMs: number) => lastSequenceBefore(pool, key, atMs, bounds)
  const after = fromMs === undefined ? bounds.first - 1n : await before(fromMs)
  const upTo = toMs === undefined ? bounds.last : await before(toMs)
  return { after, upTo, opening: await balanceAt(pool, key, after) }
}

/** The balance after an event. */
async function balanceAt(pool: Queryable, key: BalanceKey, sequence: bigint): Promise<Balance> {
  const known = await findKnownBalance(pool, key, sequence)
  if (known?.sequence === sequence) return known.balance
  const range = { ...key, after: known?.sequence ?? BEFORE_ALL, upTo: sequence }
  return add(known?.balance ?? ZERO_BALANCE, await sumRange(pool, range))
}

function parsePageStart(key: readonly string[]): PageStart {
  const [sequence, minor] = [/^-?\d{1,18}$/, /^-?\d{1,38}$/]
  // Two sequence numbers and three sums, which may be larger than an int64.
  if (!key.every((part, at) => (at < 2 ? sequence : minor).test(part))) throw invalidPageToken()
  const [after = 0n, upTo = 0n, pendingMinor = 0n, availableMinor = 0n, feesMinor = 0n] =
    key.map(BigInt)
  return { after, upTo, opening: { pendingMinor, availableMinor, feesMinor } }
}

function add(a: Balance, b: Balance): Balance {
  return {
    pendingMinor: a.pendingMinor + b.pendingMinor,
    availableMinor: a.availableMinor + b.availableMinor,
    feesMinor: a.feesMinor + b.feesMinor,
  }
}

/** A statement entry: how one event changed the balance of a business. */
export interface Entry extends Balance {
  readonly sequence: bigint
  readonly kind: string
  readonly bookedAtMs: number
  /** The id of a transaction or a settlement. */
  readonly subjectId: string
  /** Empty for a settlement, and for a transaction of another business. */
  readonly sessionId: string
}

interface Row extends BalanceRow {
  business_sequence: string
  kind: string
  logged_at_ms: number
  subject_id: string
  session_id: string | null
}

/** The most events that a page scans, including events that moved no money, such as new accounts. */
const EVENTS_MAX = 1_000

/** A range of sequence numbers of a business and mode: `after` exclusive, `upTo` inclusive. */
interface Range extends BalanceKey {
  readonly after: bigint
  readonly upTo: bigint
}

/**
 * The entries of a range, oldest first.
 *
 * @returns `readUpTo`: the last scanned sequence number, if the scan limit ended the page
 */
async function listRange(
  pool: Queryable,
  range: Range,
  limit: number,
): Promise<{ readonly entries: Entry[]; readonly readUpTo: bigint | undefined }> {
  const { rows } = await pool.query<Row & { business_sequence: string | null; read_up_to: string }>(
    `with page as materialized (
        select * from (
          select l.business_sequence, o.kind, o.subject_id, l.logged_at, o.pending_minor,
            o.available_minor, o.fees_minor,
            (o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0) or o.nets_zero as moves_money
          from event_log l join outbox o on o.seq = l.outbox_seq
          where l.business_id = $1 and l.live = $5 and l.business_sequence > $2 and l.business_sequence <= $3
            -- The row of an archived event remains until its partition is dropped.
            and l.position > (select archived from event_retention where id = 1)
          order by l.business_sequence limit ${EVENTS_MAX}
        ) candidate where moves_money order by business_sequence limit $4
      ), edge as (
        -- The last event that was scanned, if the scan ended at its limit.
        select case when (select count(*) from page) < $4 then (
          select business_sequence from event_log l
          where l.business_id = $1 and l.live = $5 and l.business_sequence > $2 and l.business_sequence <= $3
            and l.position > (select archived from event_retention where id = 1)
          order by business_sequence offset ${EVENTS_MAX - 1} limit 1
        ) end as read_up_to
      ), archived as (
        select business_sequence, kind, subject_id, logged_at, pending_minor, available_minor, fees_minor
        from archived_entry
        where business_id = $1 and live = $5 and business_sequence > $2 and business_sequence <= $3
        order by business_sequence limit $4
      ), entry as (
        select * from archived
        union all
        select business_sequence, kind, subject_id, logged_at, pending_minor, available_minor, fees_minor
        from page
        order by business_sequence limit $4
      )
      select edge.read_up_to, e.business_sequence, e.kind,
        round(date_part('epoch', e.logged_at) * 1000) as logged_at_ms, e.subject_id, t.session_id, e.pending_minor, e.available_minor, e.fees_minor
      from edge left join (entry e left join transaction t on t.id = e.subject_id and t.business_id = $1) on true
      order by e.business_sequence`,
    [range.businessId, range.after, range.upTo, limit, range.live],
  )
  const edge = rows[0]?.read_up_to ?? undefined
  return {
    entries: rows.flatMap((row) => (row.business_sequence === null ? [] : [toEntry(row)])),
    readUpTo: edge === undefined ? undefined : BigInt(edge),
  }
}

function toEntry(row: Row): Entry {
  return {
    sequence: BigInt(row.business_sequence),
    kind: row.kind,
    bookedAtMs: row.logged_at_ms,
    subjectId: row.subject_id,
    sessionId: row.session_id ?? '',
    ...toBalance(row),
  }
}

/** The sum of the balance changes in a range. */
async function sumRange(pool: Queryable, range: Range): Promise<Balance> {
  const { rows } = await pool.query<BalanceRow>(
    `select coalesce(sum(pending_minor), 0) as pending_minor,
        coalesce(sum(available_minor), 0) as available_minor,
        coalesce(sum(fees_minor), 0) as fees_minor
      from money_event e
      where business_id = $1 and live = $4 and business_sequence > $2 and business_sequence <= $3`,
    [range.businessId, range.after, range.upTo, range.live],
  )
  return toBalance(rows[0] as BalanceRow)
}

/** The latest settlement or kept balance at or below a sequence number, with its balance. */
async function findKnownBalance(
  pool: Queryable,
  { businessId, live }: BalanceKey,
  upTo: bigint,
): Promise<{ readonly sequence: bigint; readonly balance: Balance } | undefined> {
  const { rows } = await pool.query<BalanceRow & { readonly sequence: string }>(
    `select * from (
        (select to_sequence as sequence, balance_pending_minor as pending_minor,
          balance_available_minor as available_minor, balance_fees_minor as fees_minor
        from settlement where business_id = $1 and live = $3 and to_sequence <= $2 and status = 'COMPLETED'
        order by to_sequence desc limit 1)
        union all
        (select last_sequence, pending_minor, available_minor, fees_minor
        from event_business_counter where business_id = $1 and live = $3 and last_sequence <= $2
        order by last_sequence desc limit 1)
      ) known order by sequence desc limit 1`,
    [businessId, upTo, live],
  )
  return rows[0] && { sequence: BigInt(rows[0].sequence), balance: toBalance(rows[0]) }
}
