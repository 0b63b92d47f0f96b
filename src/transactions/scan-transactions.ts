import type { BankCode } from '../banks/bank.ts'
import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { firstIdAt } from '../core/ids.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { cutScan, type Page } from '../postgres/page-token.ts'
import { bindValues } from '../postgres/statement.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from './queries.ts'
import type { StoredTransaction, Totals, TransactionStatus } from './transaction.ts'
import type { HoldState, Variance } from './variance/variance.ts'

/** Which transactions to scan; times in epoch milliseconds. */
interface ScanFilter extends PaymentFilter {
  readonly statuses: readonly TransactionStatus[] | undefined
  /** When they were reported to the service, which is when their ids were made. */
  readonly recordedFromMs: number | undefined
  readonly recordedToMs: number | undefined
}

/** How many transactions a page reads at most. */
const ROWS_MAX = 2_000

/** How many transactions totals read at most. */
export const SUMMED_MAX = 10_000

interface ScannedPage {
  readonly rows: readonly StoredTransaction[]
  readonly nextPageToken: string
}

type ScanRow<Edge> = Edge & (TransactionRow | { readonly id: null })

/**
 * SQL: the totals of `matching` by status, and a row without a status that counts the rows of `edge`, where reading ended
 * at its bound. A `group by` would sort all rows if the planner expects few.
 */
const TOTALS = `select s.status, t.count, t.amount_minor
      from unnest(array['PENDING', 'SUCCESS', 'FAILED', 'REVERSED']) as s(status) cross join lateral (
        select count(*)::int4 as count, sum(amount_minor) as amount_minor from matching where status = s.status
      ) t where t.count > 0
      union all select null, count(*)::int4, 0 from edge`

interface TotalsRow {
  readonly status: TransactionStatus | null
  readonly count: number
  readonly amount_minor: string
}

function toTotals(rows: readonly TotalsRow[]): Totals {
  return {
    statuses: rows.flatMap(({ status, count, amount_minor: amountMinor }) =>
      status === null ? [] : [{ status, count, amountMinor: BigInt(amountMinor) }],
    ),
    truncated: rows.some(({ status, count }) => status === null && count > 0),
  }
}

/** Adds a value to a statement. @returns its placeholder */
type Bind = (value: unknown) => string

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
  const { range, matches } = partsOfAll(filter, page.after?.[0], bind)
  const { rows } = await pool.query<ScanRow<{ readonly read_up_to: string | null }>>(
    `with page as materialized (
        select * from (
          select * from transaction where ${range} order by id desc limit ${ROWS_MAX}
        ) candidate where ${matches} order by id desc limit $1
      ), edge as (
        select case when (select count(*) from page) < $1 then (
          select id from transaction where ${range} order by id desc offset ${ROWS_MAX - 1} limit 1
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

/** The totals of the transactions that `scanAll` finds. */
export async function sumAll(
  pool: Queryable,
  filter: ScanFilter & { readonly live: boolean },
): Promise<Totals> {
  const { values, bind } = bindValues()
  const { range, matches } = partsOfAll(filter, undefined, bind)
  const { rows } = await pool.query<TotalsRow>(
    `with matching as materialized (
        select status, amount_minor from (
          select * from transaction where ${range} order by id desc limit ${SUMMED_MAX}
        ) candidate where ${matches}
      ), edge as (
        select id from transaction where ${range} order by id desc offset ${SUMMED_MAX - 1} limit 1
      )
      ${TOTALS}`,
    values,
  )
  return toTotals(rows)
}

/** SQL: the ids to read, and the conditions on each candidate. */
function partsOfAll(
  filter: ScanFilter & { readonly live: boolean },
  afterId: string | undefined,
  bind: Bind,
) {
  const { live, statuses } = filter
  const range = [
    ...reportedRange(filter, 'transaction', bind),
    ...(afterId === undefined ? [] : [`id < ${bind(afterId)}`]),
    // Payments in test mode have an index of their own: there are few among those in live mode.
    live ? 'true' : 'not live',
  ]
  const matches = [
    ...(statuses === undefined ? [] : [`candidate.status = any (${bind(statuses)}::text[])`]),
    ...paymentConditions(filter, 'candidate', bind),
    live ? 'candidate.live' : 'true',
  ]
  return { range: range.join(' and '), matches: matches.join(' and ') }
}

/** The rows to scan in the order of payment: each is the range of an index. */
export interface Sources {
  readonly column: 'business_id' | 'account_id'
  readonly ids: readonly string[]
  /** Empty: the column decides about the mode. */
  readonly modes: readonly boolean[]
}

/** Which transactions to scan in the order of payment; times in epoch milliseconds. */
interface PaidFilter extends ScanFilter {
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
}

/**
 * A payment that was reported in a period is left out if it was paid more than this before or after the period.
 */
const PAID_BEFORE_MAX_MS = 31 * DAY_MS
const PAID_AFTER_MAX_MS = HOUR_MS

/** Where the previous page ended. */
interface After {
  readonly paidAtMs: number
  readonly id: string
}

/** The order of payment, the latest first. */
const LATEST = 'order by paid_at desc, id desc'

/**
 * One page of the transactions of some businesses or of some accounts, the latest payment first. Each source is read up to
 * a bound of its own: the page size, if no filter applies. If reads ended at their bounds, the page ends at the latest
 * payment at which one of them did; older payments are left to the next page.
 */
export async function scanByPaidAt(
  pool: Queryable,
  filter: PaidFilter,
  sources: Sources,
  page: Page,
  after: After | undefined,
): Promise<ScannedPage> {
  const { values, bind } = bindValues(page.limit + 1)
  const { recordedFromMs, recordedToMs } = filter
  const leavesOut = isFiltered(filter) || recordedFromMs !== undefined || recordedToMs !== undefined
  const rangeMax = leavesOut ? ROWS_MAX : page.limit + 1
  const parts = partsByPaidAt(filter, sources, { rowsMax: ROWS_MAX, rangeMax }, after, bind)
  type Edge = { readonly edge_paid_at_ms: number | null; readonly edge_id: string | null }
  const { rows } = await pool.query<ScanRow<Edge>>(
    `with candidate as (${parts.candidates}), edge as materialized (${parts.edge}), page as (
        select * from candidate t where ${parts.matches} ${LATEST} limit $1
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

/** The totals of the transactions that `scanByPaidAt` finds. */
export async function sumByPaidAt(
  pool: Queryable,
  filter: PaidFilter,
  sources: Sources,
): Promise<Totals> {
  const { values, bind } = bindValues()
  const bounds = { rowsMax: SUMMED_MAX, rangeMax: SUMMED_MAX }
  const parts = partsByPaidAt(filter, sources, bounds, undefined, bind)
  const { rows } = await pool.query<TotalsRow>(
    `with candidate as (${parts.candidates}), edge as materialized (${parts.edge}),
      matching as materialized (
        select status, amount_minor from candidate t where ${parts.matches}
      )
      ${TOTALS}`,
    values,
  )
  return toTotals(rows)
}

/**
 * SQL: the candidates, with each range read up to a bound; the edge, which is the latest payment at which one of these
 * reads ended; and the conditions on a candidate `t`, which include that it is not older than the edge.
 *
 * @param bounds the most rows to read of all ranges together, and of each range
 */
function partsByPaidAt(
  filter: PaidFilter,
  { column, ids, modes }: Sources,
  bounds: { readonly rowsMax: number; readonly rangeMax: number },
  after: After | undefined,
  bind: Bind,
) {
  const keys = bind(ids)
  const period = paidPeriod(filter, after, bind)
  const ranges = rangesOf(filter, modes).map((range) => [`${column} = k.key`, ...range, ...period])
  const rowsMax = Math.min(
    bounds.rangeMax,
    Math.ceil(bounds.rowsMax / (ranges.length * ids.length)),
  )
  const read = (columns: string, limit: string) =>
    ranges
      .map(
        (range) => `select c.* from unnest(${keys}::text[]) as k(key) cross join lateral (
          select ${columns} from transaction where ${range.join(' and ')} ${LATEST} ${limit}) c`,
      )
      .join(' union all ')
  const matches = [
    ...reportedRange(filter, 't', bind),
    ...paymentConditions(filter, 't', bind),
    'not exists (select from edge where (t.paid_at, t.id) < (edge.paid_at, edge.id))',
  ]
  return {
    candidates: read('*', `limit ${rowsMax}`),
    edge: `select * from (${read('paid_at, id', `offset ${rowsMax - 1} limit 1`)}) e ${LATEST} limit 1`,
    matches: matches.join(' and '),
  }
}

/** Mode and status are literals, so that the planner can choose the partial index of the rare statuses. */
function rangesOf({ statuses }: ScanFilter, modes: readonly boolean[]): readonly string[][] {
  const ofMode = modes.length === 0 ? [[]] : modes.map((live) => [`live = ${live}`])
  if (statuses === undefined) return ofMode
  return ofMode.flatMap((mode) => statuses.map((status) => [...mode, `status = '${status}'`]))
}

function paidPeriod(filter: PaidFilter, after: After | undefined, bind: Bind): readonly string[] {
  const { fromMs, toMs, recordedFromMs, recordedToMs } = filter
  const period: string[] = []
  const add = (operator: string, atMs: number | undefined): void => {
    if (atMs !== undefined) period.push(`paid_at ${operator} ${bind(new Date(atMs))}`)
  }
  add('>=', fromMs)
  add('<', toMs)
  add('>=', recordedFromMs === undefined ? undefined : recordedFromMs - PAID_BEFORE_MAX_MS)
  add('<', recordedToMs === undefined ? undefined : recordedToMs + PAID_AFTER_MAX_MS)
  if (after !== undefined) {
    period.push(`(paid_at, id) < (${bind(new Date(after.paidAtMs))}, ${bind(after.id)})`)
  }
  return period
}

/** Ids begin with the time at which the payment was reported. */
function reportedRange(
  { recordedFromMs, recordedToMs }: ScanFilter,
  alias: string,
  bind: Bind,
): readonly string[] {
  const idAt = (atMs: number) => bind(firstIdAt('txn', Math.max(0, Math.floor(atMs))))
  return [
    ...(recordedFromMs === undefined ? [] : [`${alias}.id >= ${idAt(recordedFromMs)}`]),
    ...(recordedToMs === undefined ? [] : [`${alias}.id < ${idAt(recordedToMs)}`]),
  ]
}

/**
 * The businesses whose latest payments of rare statuses are the latest. A page of `limit` payments contains payments of no
 * other business. Reads the index of these statuses once or twice for each business that has such payments.
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

/** Filters of a list of payments that no index serves; an absent field does not filter. */
export interface PaymentFilter {
  readonly bank?: BankCode | undefined
  readonly amountFromMinor?: bigint | undefined
  readonly amountToMinor?: bigint | undefined
  readonly variances?: readonly Variance[] | undefined
  readonly holds?: readonly HoldState[] | undefined
}

export function isFiltered(filter: PaymentFilter): boolean {
  const { bank, amountFromMinor, amountToMinor, variances, holds } = filter
  return [bank, amountFromMinor, amountToMinor, variances, holds].some((set) => set !== undefined)
}

/**
 * SQL: the conditions of a filter on the transaction of an alias.
 *
 * @param bind adds a parameter and returns its placeholder
 */
export function paymentConditions(
  filter: PaymentFilter,
  alias: string,
  bind: (value: unknown) => string,
): readonly string[] {
  const conditions: string[] = []
  const add = (value: unknown, conditionOf: (parameter: string) => string): void => {
    if (value !== undefined) conditions.push(conditionOf(bind(value)))
  }
  add(filter.bank, (bank) => `${alias}.bank = ${bank}`)
  add(filter.amountFromMinor, (minor) => `${alias}.amount_minor >= ${minor}`)
  add(filter.amountToMinor, (minor) => `${alias}.amount_minor <= ${minor}`)
  add(
    filter.variances,
    (all) => `(select variance from payment_variance
      where transaction_id = ${alias}.id offset 0) = any (${all}::text[])`,
  )
  add(
    filter.holds,
    (all) => `(select hold from payment_variance
      where transaction_id = ${alias}.id offset 0) = any (${all}::text[])`,
  )
  return conditions
}

export function matchesPayment(
  filter: PaymentFilter & { readonly statuses: readonly TransactionStatus[] | undefined },
  { bank, amountMinor, status, variance }: StoredTransaction,
): boolean {
  const { amountFromMinor = 0n, amountToMinor = amountMinor, variances, holds, statuses } = filter
  return (
    (filter.bank === undefined || bank === filter.bank) &&
    amountMinor >= amountFromMinor &&
    amountMinor <= amountToMinor &&
    (statuses === undefined || statuses.includes(status)) &&
    (variances === undefined ||
      (variance !== undefined && variances.includes(variance.variance))) &&
    (holds === undefined || (variance?.hold !== undefined && holds.includes(variance.hold)))
  )
}
