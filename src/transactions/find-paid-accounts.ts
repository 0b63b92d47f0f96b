import type { Pool } from 'pg'

/** Which of the accounts have a payment that was made at or after a time. */
export async function findPaidAccounts(
  pool: Pool,
  accountIds: readonly string[],
  sinceMs: number,
): Promise<ReadonlySet<string>> {
  const { rows } = await pool.query<{ id: string }>({
    name: 'transaction-find-paid-accounts',
    text: `select requested.id from unnest($1::text[]) as requested(id) cross join lateral (
        select from transaction t where t.account_id = requested.id and t.paid_at >= $2 limit 1
      ) paid`,
    values: [accountIds, new Date(sinceMs)],
  })
  return new Set(rows.map(({ id }) => id))
}
