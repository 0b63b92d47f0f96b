import type { Pool } from 'pg'

/** Which of the accounts have a payment that was made at or after a time. */
export async function findPaidAccounts(
  pool: Pool,
  accountIds: readonly string[],
  sinceMs: number,
): Promise<ReadonlySet<string>> {
  const { rows } = await pool.query<{ id: string }>({
    name: 'transaction-find-paid-accounts',
    text: `select id from unnest($1::text[]) as requested(id) where exists (
        select from transaction t where t.account_id = requested.id and t.paid_at >= $2)`,
    values: [accountIds, new Date(sinceMs)],
  })
  return new Set(rows.map(({ id }) => id))
}
