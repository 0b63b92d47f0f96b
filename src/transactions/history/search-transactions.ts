import { joinAccount } from '../../accounts/account.sql.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from '../queries.ts'
import { joinSession } from '../transaction.sql.ts'
import type { StoredTransaction } from '../transaction.ts'

/** What to search among; undefined: all. */
interface Scope {
  readonly businessIds: readonly string[] | undefined
  readonly live: boolean | undefined
}

/** The transactions of an id or of a session id, newest first: at most one of each bank and mode. */
export async function searchTransactions(
  on: Queryable,
  text: string,
  { businessIds, live }: Scope,
): Promise<readonly StoredTransaction[]> {
  const ofId = `select * from transaction where id = $1`
  const ofSession = `select t.* from (select) one ${joinSession('s.session_id = $1')}`
  const { rows } = await on.query<TransactionRow>(
    `select ${TRANSACTION_COLUMNS} from (${text.startsWith('txn_') ? `${ofId} union ${ofSession}` : ofSession}) t
      ${joinAccount('t.account_id')}
      where ($2::text[] is null or t.business_id = any ($2)) and ($3::boolean is null or t.live = $3)
      order by t.id desc`,
    [text, businessIds ?? null, live ?? null],
  )
  return rows.map(toStored)
}
