import type { PoolClient } from 'pg'
import { textArray } from '../postgres/binary-arrays.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import { type TermsRow, toTerms } from './store.ts'
import type { AccountTerms } from './terms.ts'

/** The terms of a locked one-time account. */
export interface LockedTerms extends AccountTerms {
  readonly accountId: string
}

/**
 * Locks one-time accounts until the commit, in the order of their ids, and reads their terms. Payments into an
 * account that are recorded at the same time wait for each other here, so each sees what the one before did.
 * Permanent accounts are neither locked nor returned.
 */
export async function lockOneTimeAccounts(
  client: PoolClient,
  ids: readonly string[],
): Promise<ReadonlyMap<string, LockedTerms>> {
  const { rows } = await client.query<TermsRow & { readonly id: string }>({
    name: 'account-lock-one-time',
    text: `select id, expected_amount_minor, amount_rule, ${epochMs('expires_at')} as expires_at_ms,
        expires_in_seconds, single_use, allowed_payers, ${epochMs('used_at')} as used_at_ms,
        ${epochMs('ended_at')} as ended_at_ms
      from account where id = any ($1::text[]) and one_time order by id for no key update`,
    values: [textArray([...new Set(ids)])],
  })
  return new Map(rows.map((row) => [row.id, { accountId: row.id, ...toTerms(row) }]))
}

/** Stores that a payment has used up each of some locked accounts: the job ends them next. */
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
