import type { Queryable } from '../../postgres/in-transaction.ts'
import type { Discrepancy } from './verify-transactions.ts'

/** The key of a session. */
export interface SessionPlace {
  readonly sessionId: string
  readonly bank: string
  readonly live: boolean
}

/** The place before all sessions. */
export const FIRST_SESSION: SessionPlace = { sessionId: '', bank: '', live: false }

interface Row {
  session_id: string
  bank: string
  live: boolean
  transaction_id: string
  is_own: boolean
  is_last: boolean
}

/**
 * Verifies that the transactions of the next sessions exist and are theirs. The reverse is verified with each
 * transaction.
 *
 * @returns `last`: where the next page starts; undefined on the last page
 */
export async function verifySessions(
  client: Queryable,
  after: SessionPlace,
  limit: number,
): Promise<{ readonly discrepancies: Discrepancy[]; readonly last: SessionPlace | undefined }> {
  const { rows } = await client.query<Row>(
    `with page as materialized (
        select session_id, bank, live, transaction_id,
          row_number() over (order by session_id, bank, live) = $4 as is_last
        from payment_session where (session_id, bank, live) > ($1, $2, $3::boolean)
        order by session_id, bank, live limit $4
      ), compared as (
        select p.*,
          coalesce((t.session_id, t.bank, t.live) = (p.session_id, p.bank, p.live), false) as is_own
        from page p left join lateral (
          select session_id, bank, live from transaction t where t.id = p.transaction_id offset 0
        ) t on true
      )
      select * from compared where is_last or not is_own order by session_id, bank, live`,
    [after.sessionId, after.bank, after.live, limit],
  )
  const last = rows.find((row) => row.is_last)
  return {
    discrepancies: rows
      .filter((row) => !row.is_own)
      .map((row) => ({
        subject: row.transaction_id,
        problem: `is named by the session ${row.session_id}, but is not its transaction`,
      })),
    last: last && { sessionId: last.session_id, bank: last.bank, live: last.live },
  }
}
