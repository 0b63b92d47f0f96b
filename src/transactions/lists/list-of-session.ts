import { joinAccount } from '../../accounts/account.sql.ts'
import { invalidFields } from '../../core/errors.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { PageTokenField } from '../../postgres/page-token.ts'
import {
  TRANSACTION_COLUMNS,
  type TransactionFilter,
  type TransactionRow,
  toStored,
} from '../queries.ts'
import { joinSession } from '../transaction.sql.ts'
import type { StoredTransaction } from '../transaction.ts'
import { matchesPayment, type PaymentFilter } from './payment-filter.ts'

interface OfSession extends Omit<TransactionFilter, 'accountId'>, PaymentFilter {
  /** The businesses that the caller may see, if none is named; absent: all. */
  readonly allowed?: ReadonlySet<string> | undefined
  readonly sessionId: string
  /** The returned reference or the business's own; empty: any account. */
  readonly reference: string
  readonly recordedFromMs: number | undefined
  readonly recordedToMs: number | undefined
  readonly pageToken: string
  readonly pageTokenField?: PageTokenField
}

/**
 * The payments with one session id of a business, or of all that the caller may see, on one page: two banks may
 * use the same one.
 *
 * @throws Fault validation_failed with a recorded period, or the token of another page
 */
export async function listOfSession(
  pool: Queryable,
  request: OfSession,
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
    ({ account, ...each }) =>
      (reference === '' || [account.reference, account.merchantReference].includes(reference)) &&
      matchesPayment(request, { account, ...each }) &&
      (fromMs === undefined || each.paidAtMs >= fromMs) &&
      (toMs === undefined || each.paidAtMs < toMs),
  )
  return { rows, nextPageToken: '' }
}

/** At every bank, the latest payment first. */
async function findAll(
  pool: Queryable,
  { businessId, live, sessionId, allowed }: OfSession,
): Promise<readonly StoredTransaction[]> {
  const businessIds = businessId === '' ? allowed && [...allowed] : [businessId]
  const { rows } = await pool.query<TransactionRow>(
    `select ${TRANSACTION_COLUMNS} from (select) one
      ${joinSession('s.session_id = $1 and s.live = coalesce($2, s.live)', '(t.business_id = any ($3::text[]) or $3 is null)')}
      ${joinAccount('t.account_id')}
      order by t.paid_at desc, t.id desc`,
    [sessionId, live ?? null, businessIds ?? null],
  )
  return rows.map(toStored)
}
