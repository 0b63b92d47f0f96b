import { findByEitherReference, getAccountsOfCustomer } from '../accounts/get-account.ts'
import { assert, invalidFields } from '../core/errors.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { invalidPageToken, type PageTokenField, readPage } from '../postgres/page-token.ts'
import { listByRecordedTime } from './list-by-recorded-time.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from './queries.ts'
import {
  findLatestUnsuccessful,
  isFiltered,
  matchesPayment,
  type PaymentFilter,
  type Sources,
  SUMMED_MAX,
  scanAll,
  scanByPaidAt,
  sumAll,
  sumByPaidAt,
} from './scan-transactions.ts'
import {
  type StoredTransaction,
  type Totals,
  TRANSACTION_STATUSES,
  type TransactionStatus,
} from './transaction.ts'

/**
 * Which transactions to list. An empty `businessId` selects all businesses that the caller may see. `reference` is the
 * reference that Inflow returned for the account, or the business's own; empty: any account.
 */
export interface TransactionFilter extends PaymentFilter {
  readonly businessId: string
  /** Undefined: both modes. */
  readonly live: boolean | undefined
  readonly statuses: readonly TransactionStatus[] | undefined
  /** When they were paid; epoch milliseconds. */
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
  /** The businesses that the caller may see, if none is named; absent: all. */
  readonly allowed?: ReadonlySet<string> | undefined
  readonly reference: string
  /** Only into accounts of the customer with this address, as it is stored; needs a business. Absent: any. */
  readonly customerEmail?: string | undefined
  /** Empty: any. Otherwise there is one page, with every payment of the session. */
  readonly sessionId: string
  /** If either is set, the list is in the order in which payments were recorded; epoch milliseconds. */
  readonly recordedFromMs: number | undefined
  readonly recordedToMs: number | undefined
}

/** A list request. */
export interface ListTransactions extends TransactionFilter {
  readonly pageSize: number
  readonly pageToken: string
  readonly pageTokenField?: PageTokenField
}

/** The filter of a list of one business. */
interface BusinessFilter extends TransactionFilter {
  /** Undefined: any account. */
  readonly accountIds: readonly string[] | undefined
}

/**
 * One page, the latest payment first, or by recorded time: see `listByRecordedTime`. An unknown reference has no
 * transactions. A list of all businesses begins with the transaction that was recorded last: see `scanAll`.
 */
export async function listTransactions(pool: Queryable, request: ListTransactions) {
  if (request.sessionId !== '') {
    return { rows: await findOfSession(pool, request), nextPageToken: '' }
  }
  if (request.businessId === '') return listOfAll(pool, request)
  if (isByRecordedTime(request)) {
    const accountIds = await accountsOf(pool, request)
    if (accountIds?.length === 0) return { rows: [], nextPageToken: '' }
    return listByRecordedTime(pool, { ...request, accountIds })
  }
  const { pageSize, pageToken, pageTokenField } = request
  const page = readPage(pageSize, pageToken, 2, pageTokenField)
  const after = page.after && readKey(page.after, pageTokenField)
  const filter = { ...request, accountIds: await accountsOf(pool, request) }
  return scanByPaidAt(pool, filter, sourcesOf(filter), page, after)
}

/**
 * The totals of the transactions that `listTransactions` lists with the same filter. Reads at most `SUMMED_MAX`
 * transactions in the order of the list; for all businesses, always the latest reported transactions.
 */
export async function summarizeTransactions(
  pool: Queryable,
  request: TransactionFilter,
): Promise<Totals> {
  if (request.sessionId !== '') return totalsOf(await findOfSession(pool, request), false)
  const { businessId, live, allowed } = request
  if (businessId === '') {
    assert(live !== undefined, 'validation requires a mode')
    if (allowed === undefined) return sumAll(pool, { ...request, live })
    return sumByPaidAt(pool, request, {
      column: 'business_id',
      ids: [...allowed],
      modes: [live],
    })
  }
  const filter = { ...request, accountIds: await accountsOf(pool, request) }
  if (isByRecordedTime(request)) return sumByRecordedTime(pool, filter)
  return sumByPaidAt(pool, filter, sourcesOf(filter))
}

function isByRecordedTime({ recordedFromMs, recordedToMs }: TransactionFilter): boolean {
  return recordedFromMs !== undefined || recordedToMs !== undefined
}

/** How many transactions are read at a time to sum them. */
const SUMMED_PAGE_SIZE = 1_000

/** Adds up the pages of the list by recorded time, which follows the event log. */
async function sumByRecordedTime(pool: Queryable, filter: BusinessFilter): Promise<Totals> {
  if (filter.accountIds?.length === 0) return totalsOf([], false)
  const rows: Summed[] = []
  let pageToken = ''
  for (let read = 0; read < SUMMED_MAX; read += SUMMED_PAGE_SIZE) {
    const request = { ...filter, pageSize: SUMMED_PAGE_SIZE, pageToken }
    const page = await listByRecordedTime(pool, request)
    rows.push(...page.rows.map(({ status, amountMinor }) => ({ status, amountMinor })))
    // Without an end of the period, the last token is repeated.
    const isEnd = page.nextPageToken === '' || page.nextPageToken === pageToken
    if (isEnd) return totalsOf(rows, false)
    pageToken = page.nextPageToken
  }
  return totalsOf(rows, true)
}

type Summed = Pick<StoredTransaction, 'status' | 'amountMinor'>

function totalsOf(rows: readonly Summed[], truncated: boolean): Totals {
  const statuses = TRANSACTION_STATUSES.map((status) => {
    const having = rows.filter((row) => row.status === status)
    const amountMinor = having.reduce((sum, row) => sum + row.amountMinor, 0n)
    return { status, count: having.length, amountMinor }
  })
  return { statuses: statuses.filter(({ count }) => count > 0), truncated }
}

/** The index in payment order, and the ranges of it that contain the transactions. */
function sourcesOf({ businessId, live, accountIds }: BusinessFilter): Sources {
  if (accountIds !== undefined) return { column: 'account_id', ids: accountIds, modes: [] }
  const modes = live === undefined ? [true, false] : [live]
  return { column: 'business_id', ids: [businessId], modes }
}

/**
 * A token that is restricted to businesses reads the index of each business, in payment order. A list of only the rare
 * statuses does the same, with the index of these statuses.
 */
async function listOfAll(pool: Queryable, request: ListTransactions) {
  const { live, allowed, statuses, pageSize, pageToken } = request
  assert(live !== undefined, 'validation requires a mode')
  const isRare =
    statuses?.includes('SUCCESS') === false && !isFiltered(request) && !isByRecordedTime(request)
  if (allowed === undefined && !isRare) {
    return scanAll(pool, { ...request, live }, readPage(pageSize, pageToken, 1))
  }
  const page = readPage(pageSize, pageToken, 2)
  const after = page.after && readKey(page.after, undefined)
  const ids = allowed
    ? [...allowed]
    : await findLatestUnsuccessful(pool, { live, statuses: statuses ?? [] }, after, page.limit + 1)
  const sources: Sources = { column: 'business_id', ids, modes: [live] }
  return scanByPaidAt(pool, request, sources, page, after)
}

function readKey([paidAt = '', id = '']: readonly string[], field: PageTokenField | undefined) {
  if (!/^\d{1,14}$/.test(paidAt)) throw invalidPageToken(field)
  return { paidAtMs: Number(paidAt), id }
}

/** The most accounts of a customer in a mode that are searched: the latest accounts. */
const CUSTOMER_ACCOUNTS_MAX = 100

/** The accounts that a filter names; undefined: any account. */
async function accountsOf(
  pool: Queryable,
  { businessId, live, reference, customerEmail: email }: TransactionFilter,
): Promise<readonly string[] | undefined> {
  if (reference !== '') {
    const account = await findByEitherReference(pool, businessId, live, reference)
    const isOfCustomer = email === undefined || account?.email === email
    return account && isOfCustomer ? [account.id] : []
  }
  if (email === undefined) return undefined
  const page = { limit: CUSTOMER_ACCOUNTS_MAX, after: undefined }
  const ids: string[] = []
  for (const mode of live === undefined ? [true, false] : [live]) {
    const found = await getAccountsOfCustomer(pool, { businessId, live: mode, email }, page)
    ids.push(...found.slice(0, CUSTOMER_ACCOUNTS_MAX).map(({ id }) => id))
  }
  return ids
}

/**
 * The payments with one session id, of a business or of all businesses that the caller may see. Two banks may use the same
 * session id.
 *
 * @throws Fault validation_failed with a recorded period, or the token of another page
 */
async function findOfSession(
  pool: Queryable,
  request: TransactionFilter & Partial<ListTransactions>,
): Promise<readonly StoredTransaction[]> {
  const { pageToken = '', pageTokenField, reference, customerEmail, fromMs, toMs } = request
  if (isByRecordedTime(request) || pageToken !== '') {
    const field = pageTokenField === 'page_token' ? 'session_id' : 'sessionId'
    const message = 'cannot be combined with a recorded period or a page token'
    throw invalidFields([{ field, message }])
  }
  const found = await findAtEveryBank(pool, request)
  return found.filter(
    (each) =>
      (reference === '' ||
        [each.account.reference, each.account.merchantReference].includes(reference)) &&
      (customerEmail === undefined || each.account.email === customerEmail) &&
      matchesPayment(request, each) &&
      (fromMs === undefined || each.paidAtMs >= fromMs) &&
      (toMs === undefined || each.paidAtMs < toMs),
  )
}

/** The latest payment first. */
async function findAtEveryBank(
  pool: Queryable,
  { businessId, live, sessionId, allowed }: TransactionFilter,
): Promise<readonly StoredTransaction[]> {
  const businessIds = businessId === '' ? allowed && [...allowed] : [businessId]
  const { rows } = await pool.query<TransactionRow>(
    `select ${TRANSACTION_COLUMNS} from payment_session s
      cross join lateral (select * from transaction where id = s.transaction_id offset 0) t
      join account a on a.id = t.account_id
      where s.session_id = $1 and s.live = coalesce($2, s.live)
        and (t.business_id = any ($3::text[]) or $3 is null)
      order by t.paid_at desc, t.id desc`,
    [sessionId, live ?? null, businessIds ?? null],
  )
  return rows.map(toStored)
}
