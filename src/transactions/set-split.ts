import type { PoolClient } from 'pg'
import type { StoredAccount } from '../accounts/account.ts'
import { type AccountKey, getAccount } from '../accounts/get-account.ts'
import { checkSplit, type RequestedSplit } from '../accounts/splits/approvals.ts'
import { type Split, splitText } from '../accounts/splits/split.ts'
import { findLastValidFrom, findSplit, insertSplit } from '../accounts/splits/split-store.ts'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { Fault } from '../core/errors.ts'
import { firstIdAt, newId } from '../core/ids.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'

/** An account with its current split; undefined: its owner keeps everything. */
interface SplitAccount {
  readonly account: StoredAccount
  readonly split: Split | undefined
}

/** Sets how payments into an account are divided that are recorded from now on. */
export type SetSplit = (
  key: AccountKey,
  requested: RequestedSplit | undefined,
  actor: Actor,
) => Promise<SplitAccount>

/**
 * Creates the function. A repeated call changes nothing. Faults: not_found, account_pending, validation_failed.
 *
 * No payment of the business can be settled from before the version is chosen until the commit, and the version applies
 * only to payments recorded later than all existing payments. So a settled payment keeps its split for ever.
 */
export function createSetSplit({ database: { durablePool }, clock }: Runtime): SetSplit {
  return async (key, requested, actor) => {
    const account = await getAccount(durablePool, key)
    if (account.status === 'PENDING') {
      throw new Fault('account_pending', 'The account is not open yet')
    }
    const split = await checkSplit(durablePool, account.businessId, requested)
    const { id, businessId, live } = account
    await inTransaction(durablePool, async (client) => {
      await client.query(`select lock_settled($1, $2, false)`, [businessId, live])
      const current = await findSplit(client, id)
      if (splitText(current) === splitText(split)) return
      const nowMs = clock.now()
      const validFromMs = Math.max(
        nowMs,
        1 + ((await findLastValidFrom(client, id)) ?? 0),
        1 + (await findLastRecorded(client, id, nowMs)),
      )
      await insertSplit(client, { id: newId('spl', nowMs), accountId: id, validFromMs, split })
      const shares = { before: splitText(current) ?? '', after: splitText(split) ?? '' }
      const details = { reference: account.reference, ...shares }
      await appendAudit(client, actor, {
        action: 'account.set_split',
        targetId: id,
        businessId,
        details,
      })
    })
    return { account, split }
  }
}

/** When the last payment into an account was recorded, if that is now or later by the clock of another instance. */
async function findLastRecorded(
  client: PoolClient,
  accountId: string,
  nowMs: number,
): Promise<number> {
  const { rows } = await client.query<{ created_at_ms: number | null }>(
    `select round(date_part('epoch', max(created_at)) * 1000) as created_at_ms from transaction
      where account_id = $1 and id >= $2`,
    [accountId, firstIdAt('txn', nowMs)],
  )
  return rows[0]?.created_at_ms ?? 0
}
