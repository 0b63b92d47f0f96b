import { joinAccount } from '../accounts/account.sql.ts'
import { invalidFields } from '../core/errors.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { PageTokenField } from '../postgres/page-token.ts'
import {
  type SessionKey,
  TRANSACTION_COLUMNS,
  type TransactionFilter,
  type TransactionRow,
  toStored,
} from './queries.ts'
import { joinSession } from './transaction.sql.ts'
import type { StoredTransaction } from './transaction.ts'

interface OfSession extends Omit<TransactionFilter, 'accountId'> {
  readonly sessionId: string
  /** The returned reference or the business's own; empty: any account. */
  readonly reference: string
  readonly recordedFromMs: number | undefined
  readonly recordedToMs: number | undefined
  readonly pageToken: string
  readonly pageTokenField?: PageTokenField
}

/**
 * The payments of a business with one session id, on one page: two banks may use the same one.
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
  const { reference, status, fromMs, toMs } = request
  const found = await findAll(pool, request)
  const rows = found.filter(
    ({ account, ...each }) =>
      (reference === '' || [account.reference, account.merchantReference].includes(reference)) &&
      (status === undefined || each.status === status) &&
      (fromMs === undefined || each.paidAtMs >= fromMs) &&
      (toMs === undefined || each.paidAtMs < toMs),
  )
  return { rows, nextPageToken: '' }
}

/** At every bank, the latest payment first. */
async function findAll(
  pool: Queryable,
  { businessId, live, sessionId }: SessionKey,
): Promise<readonly StoredTransaction[]> {
  const { rows } = await pool.query<TransactionRow>(
    `select ${TRANSACTION_COLUMNS} from (select) one
      ${joinSession('s.session_id = $1 and s.live = coalesce($2, s.live)', 't.business_id = $3')}
      ${joinAccount('t.account_id')}
      order by t.paid_at desc, t.id desc`,
    [sessionId, live ?? null, businessId],
  )
  return rows.map(toStored)
}
