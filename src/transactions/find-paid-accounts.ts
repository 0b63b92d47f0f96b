import type { Pool } from 'pg'
import { joinAccount } from '../accounts/account.sql.ts'
import { firstIdAt } from '../core/ids.ts'
import type { Queryable } from '../postgres/in-transaction.ts'

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

/** How far the clock of another instance may be behind. */
const CLOCKS_APART_MS = 3_600_000

/** An imported account, and when it was imported. */
interface ImportedAccount {
  readonly id: string
  readonly importedAtMs: number
}

/**
 * Which of some imported accounts have a payment that was reported for their number: it shows that the number is
 * theirs. Imported payments do not count, nor do those that an operator assigned from another number.
 *
 * For an account without such a payment, it reads each of the imported ones.
 */
export async function findConfirmedAccounts(
  on: Queryable,
  accounts: readonly ImportedAccount[],
): Promise<ReadonlySet<string>> {
  const { rows } = await on.query<{ id: string }>({
    name: 'transaction-find-confirmed-accounts',
    // The latest payment first, as imported ones are the earlier ones. Ids begin with the time, so the second
    // condition leaves out the partitions of before.
    text: `select imported.id from unnest($1::text[], $2::text[]) as imported(id, first_id)
      ${joinAccount('imported.id')} cross join lateral (
        select from transaction t
        where t.account_id = imported.id and t.id >= imported.first_id and t.imported_settled is null
          and t.status in ('SUCCESS', 'REVERSED')
          and (t.recorded_by not like 'assignment:%' or exists (
            select from unmatched_payment u
            where u.session_id = t.session_id and u.bank = t.bank and u.account_number = a.account_number))
        order by t.paid_at desc limit 1
      ) paid`,
    values: [
      accounts.map(({ id }) => id),
      accounts.map(({ importedAtMs }) => firstIdAt('txn', importedAtMs - CLOCKS_APART_MS)),
    ],
  })
  return new Set(rows.map(({ id }) => id))
}
