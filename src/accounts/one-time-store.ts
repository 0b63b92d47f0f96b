import type { PoolClient } from 'pg'
import { textArray } from '../postgres/binary-arrays.ts'
import { type TermsRow, toTerms } from './store.ts'
import type { AccountTerms } from './terms.ts'

/**
 * Locks one-time accounts until the commit, in the order of their ids, and reads their terms. Concurrent payments into an
 * account wait for each other here, so each sees the result of the previous payment. Permanent accounts are neither locked
 * nor returned.
 */
export async function lockOneTimeAccounts(
  client: PoolClient,
  ids: readonly string[],
): Promise<ReadonlyMap<string, AccountTerms>> {
  const { rows } = await client.query<TermsRow & { readonly id: string }>({
    name: 'account-lock-one-time',
    text: `select id, expected_amount_minor, amount_rule,
        round(date_part('epoch', expires_at) * 1000) as expires_at_ms,
        expires_in_seconds, single_use, allowed_payers, round(date_part('epoch', used_at) * 1000) as used_at_ms,
        round(date_part('epoch', ended_at) * 1000) as ended_at_ms
      from account where id = any ($1::text[]) and one_time order by id for no key update`,
    values: [textArray([...new Set(ids)])],
  })
  return new Map(rows.map((row) => [row.id, toTerms(row)]))
}

/** Marks locked accounts as used up by a payment. The job then ends them. */
export async function useAccounts(
  client: PoolClient,
  ids: readonly string[],
  nowMs: number,
): Promise<void> {
  await client.query({
    name: 'account-use',
    text: `update account set used_at = $2,
        end_due_at = case when status = 'ACTIVE' then least(end_due_at, $2) else end_due_at end
      where id = any ($1::text[]) and single_use and used_at is null`,
    values: [textArray(ids), new Date(nowMs)],
  })
}
