import { invalidFields } from '../core/errors.ts'
import { findSequenceBounds, lastSequenceBefore } from '../events/business-sequences.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import {
  invalidPageToken,
  type PageTokenField,
  pageTokenOf,
  readPage,
} from '../postgres/page-token.ts'
import { bindValues } from '../postgres/statement.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from './queries.ts'
import { isFiltered, type PaymentFilter, paymentConditions } from './scan-transactions.ts'
import type { StoredTransaction, TransactionStatus } from './transaction.ts'

/** Which payments to list; times in epoch milliseconds. */
interface RecordedFilter extends PaymentFilter {
  readonly businessId: string
  readonly live: boolean | undefined
  /** Undefined: any account. */
  readonly accountIds: readonly string[] | undefined
  readonly statuses: readonly TransactionStatus[] | undefined
  /** When they were paid. */
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
  readonly recordedFromMs: number | undefined
  readonly recordedToMs: number | undefined
  readonly pageSize: number
  readonly pageToken: string
  readonly pageTokenField?: PageTokenField | undefined
}

/** The most events that a page scans, including events that moved no money, such as new accounts. */
const EVENTS_MAX = 1_000

/** How many balance changes a page with filters reads. */
const SCANNED_MAX = 1_000

/** Before and after all sequence numbers. */
const [FIRST, LAST] = [-(2n ** 62n), 2n ** 62n]

/**
 * Lists the payments of a business and mode in the order in which they were credited, oldest first. This is the order of
 * their events, so a payment that is committed later never belongs to an earlier page. `recordedAtMs` is when the event
 * got its position in the log; it never decreases along the list. Pending and failed payments have no event. A held payment
 * is listed once it is accepted.
 *
 * The next page token is empty only once everything before `recordedToMs` is listed, so a caller can continue when more
 * payments are recorded. If there is nothing new, the next page token is the token of the request.
 *
 * @throws Fault validation_failed without a mode, and with a status that has no event
 */
export async function listByRecordedTime(
  pool: Queryable,
  filter: RecordedFilter,
): Promise<{ readonly rows: readonly StoredTransaction[]; readonly nextPageToken: string }> {
  const { businessId, live, statuses, pageSize, pageToken, pageTokenField } = filter
  if (live === undefined) {
    throw invalidFields([{ field: 'live', message: 'must be set to list by recorded time' }])
  }
  if (statuses?.some((status) => status === 'PENDING' || status === 'FAILED')) {
    const message = 'must be SUCCESS or REVERSED to list by recorded time'
    throw invalidFields([{ field: 'status', message }])
  }
  const page = readPage(pageSize, pageToken, 1, pageTokenField)
  const after = page.after
    ? readSequence(page.after, pageTokenField)
    : await findStart(pool, { businessId, live }, filter.recordedFromMs)
  const { rows, next, isEnd } = await readRange(pool, filter, live, after, page.limit)
  return { rows, nextPageToken: isEnd ? '' : pageTokenOf([`${next}`]) }
}

function readSequence([text = '']: readonly string[], field: PageTokenField | undefined): bigint {
  if (!/^-?\d{1,19}$/.test(text)) throw invalidPageToken(field)
  const sequence = BigInt(text)
  if (sequence < FIRST || sequence > LAST) throw invalidPageToken(field)
  return sequence
}

async function findStart(
  pool: Queryable,
  key: { readonly businessId: string; readonly live: boolean },
  fromMs: number | undefined,
): Promise<bigint> {
  const bounds = fromMs === undefined ? undefined : await findSequenceBounds(pool, key)
  return bounds === undefined ? FIRST : lastSequenceBefore(pool, key, fromMs ?? 0, bounds)
}

interface Row extends TransactionRow {
  readonly business_sequence: string
  readonly recorded_at_ms: number
}

interface EdgeRow {
  readonly read_up_to: string
  readonly is_end: boolean
}

/** @returns `next`: the last sequence number that was read */
async function readRange(
  pool: Queryable,
  { businessId, accountIds, ...filter }: RecordedFilter,
  live: boolean,
  after: bigint,
  limit: number,
): Promise<{ readonly rows: StoredTransaction[]; readonly next: bigint; readonly isEnd: boolean }> {
  const readsMore =
    isFiltered(filter) ||
    [accountIds, filter.statuses, filter.fromMs, filter.toMs].some((each) => each !== undefined)
  const { values, bind } = bindValues(
    businessId,
    after,
    LAST,
    readsMore ? SCANNED_MAX : limit,
    live,
  )
  const time = (ms: number | undefined, fallback: string) =>
    `${bind(ms === undefined ? fallback : new Date(ms))}::timestamptz`
  const to = time(filter.recordedToMs, 'infinity')
  const where = [
    `e.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')`,
    `e.logged_at >= ${time(filter.recordedFromMs, '-infinity')}`,
    `e.logged_at < ${to}`,
    ...(accountIds === undefined ? [] : [`t.account_id = any (${bind(accountIds)}::text[])`]),
    ...(filter.statuses === undefined ? [] : [`t.status = any (${bind(filter.statuses)}::text[])`]),
    ...paymentConditions(filter, 't', bind),
    ...(filter.fromMs === undefined ? [] : [`t.paid_at >= ${time(filter.fromMs, '')}`]),
    ...(filter.toMs === undefined ? [] : [`t.paid_at < ${time(filter.toMs, '')}`]),
  ]
  const { rows } = await pool.query<EdgeRow & (Row | { readonly id: null })>(
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
      ), matching as (
        select e.business_sequence, round(date_part('epoch', e.logged_at) * 1000) as recorded_at_ms,
          ${TRANSACTION_COLUMNS}
        from entry e join transaction t on t.id = e.subject_id join account a on a.id = t.account_id
        where ${where.join(' and ')}
        order by e.business_sequence limit ${bind(limit)}
      ), range as (
        -- If the limit cut entries off, the list continues after the last one that is left.
        select greatest(max(business_sequence), case when count(*) < $4 then (select read_up_to from edge) end, $2)
            as read_up_to,
          coalesce(bool_or(logged_at >= ${to}), false) as is_end
        from entry
      )
      select range.*, matching.* from range left join matching on true order by business_sequence`,
    values,
  )
  const found = rows.flatMap((row) => (row.id === null ? [] : [row]))
  const last = found.length === limit ? found.at(-1) : undefined
  return {
    rows: found.map((row) => ({ ...toStored(row), recordedAtMs: row.recorded_at_ms })),
    next: BigInt(last?.business_sequence ?? rows[0]?.read_up_to ?? after),
    isEnd: last === undefined && rows[0]?.is_end === true,
  }
}
