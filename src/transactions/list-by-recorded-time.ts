import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { invalidFields } from '../core/errors.ts'
import { firstIdAt } from '../core/ids.ts'
import { findSequenceBounds, lastSequenceBefore } from '../events/business-sequences.ts'
import { bindValues } from '../postgres/bind-values.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import {
  cutScan,
  invalidPageToken,
  type Page,
  type PageTokenField,
  pageTokenOf,
  readPage,
} from '../postgres/page-token.ts'
import { isFiltered, type PaymentFilter, paymentConditions } from './payment-filter.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from './queries.ts'
import type { StoredTransaction, TransactionStatus } from './transaction.ts'

/** Which payments to list; times in epoch milliseconds. */
export interface RecordedFilter extends PaymentFilter {
  readonly businessId: string
  readonly live: boolean | undefined
  readonly accountId: string | undefined
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

/** How many events a page scans, including those that moved no money, such as new accounts. */
const EVENTS_MAX = 1_000

/** How many balance changes a page with filters reads. */
const SCANNED_MAX = 1_000

/** Before and after all sequence numbers. */
const [FIRST, LAST] = [-(2n ** 62n), 2n ** 62n]

/**
 * Lists the payments of a business and mode in the order in which they were credited, the first one first: in
 * the order of their events, so that a page never lacks a payment that is committed later. `recordedAtMs` is when
 * the event got its place; it never decreases along the list. Pending and failed payments have no event. A held payment has its place
 * when it is accepted.
 *
 * The token of a page is empty only once everything before `recordedToMs` is listed, so that a caller can continue when
 * more is recorded. If there is nothing new, it is the token of the request.
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
  { businessId, accountId, ...filter }: RecordedFilter,
  live: boolean,
  after: bigint,
  limit: number,
): Promise<{ readonly rows: StoredTransaction[]; readonly next: bigint; readonly isEnd: boolean }> {
  const readsMore =
    isFiltered(filter) ||
    [accountId, filter.statuses, filter.fromMs, filter.toMs].some((each) => each !== undefined)
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
    ...(accountId === undefined ? [] : [`t.account_id = ${bind(accountId)}`]),
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
        select greatest((select max(business_sequence) from entry), (select read_up_to from edge), $2)
            as read_up_to,
          exists (select from entry where logged_at >= ${to}) as is_end
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

/** How many transactions a page reads at most. */
const ROWS_MAX = 2_000

/** Which transactions to scan; times in epoch milliseconds. */
interface ScanFilter extends PaymentFilter {
  readonly statuses: readonly TransactionStatus[] | undefined
  /** When they were reported to the service, which is when their ids were made. */
  readonly recordedFromMs: number | undefined
  readonly recordedToMs: number | undefined
}

interface ScannedPage {
  readonly rows: readonly StoredTransaction[]
  readonly nextPageToken: string
}

type ScanRow<Edge> = Edge & (TransactionRow | { readonly id: null })

/**
 * One page of the transactions of all businesses in a mode, the latest reported first: by id, which is the key of
 * the partitions.
 */
export async function scanAll(
  pool: Queryable,
  filter: ScanFilter & { readonly live: boolean },
  page: Page,
): Promise<ScannedPage> {
  const { values, bind } = bindValues(page.limit + 1)
  const range = reportedRange(filter, 'transaction', bind)
  const after = page.after?.[0]
  if (after !== undefined) range.push(`id < ${bind(after)}`)
  const conditions = [...statusCondition(filter, 'candidate', bind)]
  // Payments in test mode have an index of their own: there are few among those in live mode.
  if (filter.live) conditions.push('candidate.live')
  else range.push('not live')
  const scanned = range.join(' and ') || 'true'
  const matching = [...conditions, ...paymentConditions(filter, 'candidate', bind), 'true'].join(
    ' and ',
  )
  const { rows } = await pool.query<ScanRow<{ readonly read_up_to: string | null }>>(
    `with page as materialized (
        select * from (
          select * from transaction where ${scanned} order by id desc limit ${ROWS_MAX}
        ) candidate where ${matching} order by id desc limit $1
      ), edge as (
        select case when (select count(*) from page) < $1 then (
          select id from transaction where ${scanned} order by id desc offset ${ROWS_MAX - 1} limit 1
        ) end as read_up_to
      )
      select edge.read_up_to, ${TRANSACTION_COLUMNS}
      from edge left join (page t join account a on a.id = t.account_id) on true
      order by t.id desc`,
    values,
  )
  const found = rows.flatMap((row) => (row.id === null ? [] : [toStored(row)]))
  const readUpTo = rows[0]?.read_up_to
  return cutScan(found, page, ({ id }) => [id], readUpTo ? [readUpTo] : undefined)
}

/** The rows to scan in the order of payment: each is the range of an index. */
export interface Sources {
  readonly column: 'business_id' | 'account_id'
  readonly ids: readonly string[]
  /** Empty: the column decides about the mode. */
  readonly modes: readonly boolean[]
}

/**
 * A payment reported in a period is left out if it was paid longer before the period, or longer after it, than this.
 */
const PAID_BEFORE_MAX_MS = 31 * DAY_MS
const PAID_AFTER_MAX_MS = HOUR_MS

/** Where the page before ended. */
interface After {
  readonly paidAtMs: number
  readonly id: string
}

/**
 * One page of the transactions of some businesses or of an account, the latest payment first. Each source is read up to
 * a bound of its own, which is that of the page if no filter leaves anything out; payments older than the one at which
 * the first of these reads ended are left to the next page.
 */
export async function scanByPaidAt(
  pool: Queryable,
  filter: ScanFilter & { readonly fromMs: number | undefined; readonly toMs: number | undefined },
  sources: Sources,
  page: Page,
  after: After | undefined,
): Promise<ScannedPage> {
  const { values, bind } = bindValues(page.limit + 1, sources.ids)
  const range = paidRange(filter, after, bind)
  const conditions = [
    ...reportedRange(filter, 't', bind),
    ...paymentConditions(filter, 't', bind),
    'not exists (select from edge where (t.paid_at, t.id) < (edge.paid_at, edge.id))',
  ]
  const branches = branchesOf(filter, sources)
  const scannedMax = Math.ceil(ROWS_MAX / (branches.length * sources.ids.length))
  const { recordedFromMs, recordedToMs } = filter
  const leavesOut = isFiltered(filter) || recordedFromMs !== undefined || recordedToMs !== undefined
  const rowsMax = leavesOut ? scannedMax : Math.min(scannedMax, page.limit + 1)
  const latest = 'order by paid_at desc, id desc'
  const scanned = (columns: string, limit: string) =>
    branches
      .map(
        (branch) => `select c.* from unnest($2::text[]) as k(key) cross join lateral (
          select ${columns} from transaction where ${[`${sources.column} = k.key`, ...branch, ...range].join(' and ')}
          ${latest} ${limit}) c`,
      )
      .join(' union all ')
  type Edge = { readonly edge_paid_at_ms: number | null; readonly edge_id: string | null }
  const { rows } = await pool.query<ScanRow<Edge>>(
    `with candidate as (${scanned('*', `limit ${rowsMax}`)}), edge as materialized (
        select * from (${scanned('paid_at, id', `offset ${rowsMax - 1} limit 1`)}) e ${latest} limit 1
      ), page as (
        select * from candidate t where ${conditions.join(' and ')} ${latest} limit $1
      )
      select round(date_part('epoch', edge.paid_at) * 1000) as edge_paid_at_ms, edge.id as edge_id,
        ${TRANSACTION_COLUMNS}
      -- One row says where the scan ended, also when nothing was found.
      from (select) one left join edge on true left join (page t join account a on a.id = t.account_id) on true
      order by t.paid_at desc, t.id desc`,
    values,
  )
  const found = rows.flatMap((row) => (row.id === null ? [] : [toStored(row)]))
  const { edge_paid_at_ms: edgeMs, edge_id: edgeId } = rows[0] ?? {}
  const edge = edgeId ? [`${edgeMs}`, edgeId] : undefined
  return cutScan(found, page, (row) => [`${row.paidAtMs}`, row.id], edge)
}

/**
 * The businesses whose latest payments of rare statuses are the latest of all: a page of so many has payments of no other.
 * Reads the index of these statuses, once or twice for each business that has any.
 */
export async function findLatestUnsuccessful(
  pool: Queryable,
  { live, statuses }: { readonly live: boolean; readonly statuses: readonly TransactionStatus[] },
  after: After | undefined,
  limit: number,
): Promise<readonly string[]> {
  const { rows } = await pool.query<{ business_id: string }>(
    `with recursive owner (business_id) as (
        (select business_id from transaction where status <> 'SUCCESS' order by business_id limit 1)
        union all
        select (select business_id from transaction
          where status <> 'SUCCESS' and business_id > owner.business_id order by business_id limit 1)
        from owner where owner.business_id is not null
      ), latest as (
        select distinct on (o.business_id) o.business_id, l.paid_at, l.id
        from owner o cross join unnest($2::text[]) as s(status) cross join lateral (
          select paid_at, id from transaction
          where business_id = o.business_id and live = $1 and status = s.status and status <> 'SUCCESS'
            and (paid_at, id) < ($3, $4)
          order by paid_at desc, id desc limit 1) l
        order by o.business_id, l.paid_at desc, l.id desc
      )
      select business_id from latest order by paid_at desc, id desc limit $5`,
    [live, statuses, after ? new Date(after.paidAtMs) : 'infinity', after?.id ?? '', limit],
  )
  return rows.map(({ business_id: id }) => id)
}

/** Mode and status are literals, so that the planner can choose the partial index of the rare statuses. */
function branchesOf({ statuses }: ScanFilter, { modes }: Sources): readonly string[][] {
  const ofMode = modes.length === 0 ? [[]] : modes.map((live) => [`live = ${live}`])
  if (statuses === undefined) return ofMode
  return ofMode.flatMap((mode) => statuses.map((status) => [...mode, `status = '${status}'`]))
}

function paidRange(
  filter: ScanFilter & { readonly fromMs: number | undefined; readonly toMs: number | undefined },
  after: After | undefined,
  bind: (value: unknown) => string,
): string[] {
  const { fromMs, toMs, recordedFromMs, recordedToMs } = filter
  const range: string[] = []
  const add = (operator: string, atMs: number | undefined): void => {
    if (atMs !== undefined) range.push(`paid_at ${operator} ${bind(new Date(atMs))}`)
  }
  add('>=', fromMs)
  add('<', toMs)
  add('>=', recordedFromMs === undefined ? undefined : recordedFromMs - PAID_BEFORE_MAX_MS)
  add('<', recordedToMs === undefined ? undefined : recordedToMs + PAID_AFTER_MAX_MS)
  if (after !== undefined) {
    range.push(`(paid_at, id) < (${bind(new Date(after.paidAtMs))}, ${bind(after.id)})`)
  }
  return range
}

/** Ids begin with the time at which the payment was reported. */
function reportedRange(
  { recordedFromMs, recordedToMs }: ScanFilter,
  alias: string,
  bind: (value: unknown) => string,
): string[] {
  const idAt = (atMs: number) => bind(firstIdAt('txn', Math.max(0, Math.floor(atMs))))
  return [
    ...(recordedFromMs === undefined ? [] : [`${alias}.id >= ${idAt(recordedFromMs)}`]),
    ...(recordedToMs === undefined ? [] : [`${alias}.id < ${idAt(recordedToMs)}`]),
  ]
}

function statusCondition(
  { statuses }: ScanFilter,
  alias: string,
  bind: (value: unknown) => string,
): readonly string[] {
  return statuses === undefined ? [] : [`${alias}.status = any (${bind(statuses)}::text[])`]
}
