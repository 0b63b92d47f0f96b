import type { EntityManager } from '@mikro-orm/postgresql'
import type { NotNull } from 'kysely'
import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { assert } from '../core/errors.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import type { AccountEntity } from './account.entity.ts'

/**
 * The open accounts that the real bank has opened, by id: it does not know those of the sandbox. One-time
 * accounts that ended are listed for some days more, since banks report some payments late.
 *
 * @param afterId the last account of the previous page; empty at the beginning
 */
export async function listOpenAccounts(
  em: EntityManager,
  bank: BankCode,
  afterId: string,
  limit: number,
) {
  return queriesOf<typeof AccountEntity>(em)
    .selectFrom('account')
    .select(['id', 'reference', 'accountNumber', 'bankAccountId'])
    .where('bank', '=', bank)
    .where(({ or, eb }) => or([eb('status', '=', 'ACTIVE'), eb('endDueAt', 'is not', null)]))
    .where('live', '=', true)
    .where('connector', '=', 'live')
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)
    .$narrowType<{ accountNumber: NotNull }>()
    .execute()
}

/**
 * Claims the right to ask the bank for the payments of an account: one call at a time gets it, at any
 * instance.
 *
 * @param everyMs how long no other call gets it
 * @returns how long the caller has to wait, in milliseconds; 0: it has the claim
 */
export async function claimRequery(
  pool: Pool,
  accountId: string,
  nowMs: number,
  everyMs: number,
): Promise<number> {
  const { rows } = await pool.query<{ claimed: boolean; before_ms: number | null }>(
    `with claimed as (
        update account set requeried_at = $2
        where id = $1 and (requeried_at is null or requeried_at <= $3)
        returning id
      )
      select exists (select from claimed) as claimed, ${epochMs('requeried_at')} as before_ms
      from account where id = $1`,
    [accountId, new Date(nowMs), new Date(nowMs - everyMs)],
  )
  const [row] = rows
  assert(row, 'an account that was opened is never deleted')
  if (row.claimed) return 0
  // Another call may have begun after this one and claimed before it.
  const sinceMs = Math.max(0, nowMs - (row.before_ms ?? nowMs))
  return Math.max(1, everyMs - sinceMs)
}
