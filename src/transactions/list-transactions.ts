import { getAccount } from '../accounts/get-account.ts'
import { assert, Fault, invalidFields } from '../core/errors.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { invalidPageToken, type PageTokenField, readPage } from '../postgres/page-token.ts'
import { listByRecordedTime } from './list-by-recorded-time.ts'
import { isFiltered, matchesPayment, type PaymentFilter } from './payment-filter.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from './queries.ts'
import { findLatestUnsuccessful, type Sources, scanAll, scanByPaidAt } from './scan-transactions.ts'
import type { StoredTransaction, TransactionStatus } from './transaction.ts'

/**
 * A list request. `businessId` is empty for all businesses that the caller may see. `reference` is the returned one
 * or the business's own; empty: any account.
 */
export interface ListTransactions extends PaymentFilter {
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
  /** Empty: any. Otherwise there is one page, with every payment of the session. */
  readonly sessionId: string
  /** With either, the list is in the order in which payments were recorded; epoch milliseconds. */
  readonly recordedFromMs: number | undefined
  readonly recordedToMs: number | undefined
  readonly pageSize: number
  readonly pageToken: string
  readonly pageTokenField?: PageTokenField
}

/**
 * One page, the latest payment first, or by recorded time: see `listByRecordedTime`. An unknown reference has no
 * transactions. A list of all businesses has the latest recorded first: see `scanAll`.
 */
export async function listTransactions(pool: Queryable, request: ListTransactions) {
  if (request.sessionId !== '') return listOfSession(pool, request)
  if (request.businessId === '') return listOfAll(pool, request)
  if (request.recordedFromMs !== undefined || request.recordedToMs !== undefined) {
    const accountId = await accountOf(pool, request)
    if (accountId === null) return { rows: [], nextPageToken: '' }
    return listByRecordedTime(pool, { ...request, accountId })
  }
  const { pageSize, pageToken, pageTokenField } = request
  const page = readPage(pageSize, pageToken, 2, pageTokenField)
  const after = page.after && readKey(page.after, pageTokenField)
  const accountId = await accountOf(pool, request)
  if (accountId === null) return { rows: [], nextPageToken: '' }
  const modes = request.live === undefined ? [true, false] : [request.live]
  const sources: Sources = accountId
    ? { column: 'account_id', ids: [accountId], modes: [] }
    : { column: 'business_id', ids: [request.businessId], modes }
  return scanByPaidAt(pool, request, sources, page, after)
}

/**
 * A token that is restricted to businesses reads their indexes, which are in the order of payment. So does a list of the
 * rare statuses alone: each business has an index of these.
 */
async function listOfAll(pool: Queryable, request: ListTransactions) {
  const { live, allowed, statuses, recordedFromMs, recordedToMs, pageSize, pageToken } = request
  assert(live !== undefined, 'validation requires a mode')
  const isRare =
    statuses?.includes('SUCCESS') === false &&
    !isFiltered(request) &&
    recordedFromMs === undefined &&
    recordedToMs === undefined
  if (allowed === undefined && !isRare) {
    return scanAll(pool, { ...request, live }, readPage(pageSize, pageToken, 1))
  }
  const page = readPage(pageSize, pageToken, 2)
  const after = page.after && readKey(page.after, undefined)
  const ids = allowed
    ? [...allowed]
    : await findLatestUnsuccessful(pool, { live, statuses: statuses ?? [] }, after, page.limit + 1)
  if (ids.length === 0) return { rows: [], nextPageToken: '' }
  const sources: Sources = { column: 'business_id', ids, modes: [live] }
  return scanByPaidAt(pool, request, sources, page, after)
}

function readKey([paidAt = '', id = '']: readonly string[], field: PageTokenField | undefined) {
  if (!/^\d{1,14}$/.test(paidAt)) throw invalidPageToken(field)
  return { paidAtMs: Number(paidAt), id }
}

/** The account's id; undefined for any account, null if there is no such account. */
async function accountOf(
  pool: Queryable,
  { businessId, live, reference }: ListTransactions,
): Promise<string | undefined | null> {
  if (reference === '') return undefined
  try {
    return (await getAccount(pool, { businessId, live, reference })).id
  } catch (error) {
    if (error instanceof Fault && error.reason === 'not_found') return null
    throw error
  }
}

/**
 * The payments with one session id of a business, or of all that the caller may see, on one page: two banks may
 * use the same one.
 *
 * @throws Fault validation_failed with a recorded period, or the token of another page
 */
async function listOfSession(
  pool: Queryable,
  request: ListTransactions,
): Promise<{ readonly rows: readonly StoredTransaction[]; readonly nextPageToken: string }> {
  const { recordedFromMs, recordedToMs, pageToken, pageTokenField } = request
  if (recordedFromMs !== undefined || recordedToMs !== undefined || pageToken !== '') {
    const field = pageTokenField === 'page_token' ? 'session_id' : 'sessionId'
    const message = 'cannot be combined with a recorded period or a page token'
    throw invalidFields([{ field, message }])
  }
  const { reference, fromMs, toMs } = request
  const found = await findAll(pool, request)
  const rows = found.filter(
    (each) =>
      (reference === '' ||
        [each.account.reference, each.account.merchantReference].includes(reference)) &&
      matchesPayment(request, each) &&
      (fromMs === undefined || each.paidAtMs >= fromMs) &&
      (toMs === undefined || each.paidAtMs < toMs),
  )
  return { rows, nextPageToken: '' }
}

/** At every bank, the latest payment first. */
async function findAll(
  pool: Queryable,
  { businessId, live, sessionId, allowed }: ListTransactions,
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
