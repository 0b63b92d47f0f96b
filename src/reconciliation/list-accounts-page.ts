import { listOpenAccounts } from '../accounts/requery-accounts.ts'
import type { AccountAtBank, BankCode } from '../banks/bank.ts'
import type { Database } from '../postgres/orm.ts'
import { findPaidAccounts } from '../transactions/find-paid-accounts.ts'

interface AccountsRequest {
  readonly bank: BankCode
  /** The last account of the page before; empty at the beginning. */
  readonly afterId: string
  /** Only accounts with a payment since then; undefined: all. */
  readonly paidSinceMs: number | undefined
  readonly limit: number
}

interface AccountsPage {
  readonly accounts: readonly AccountAtBank[]
  /** Where the next page begins; undefined at the end. */
  readonly cursor: string | undefined
}

/** How many accounts one statement reads, whether or not they have payments. */
const SCANNED_MAX = 2_000

/** Lists the open accounts that the real bank has opened: it does not know those of the sandbox. */
export async function listAccountsPage(
  { pool, orm }: Pick<Database, 'pool' | 'orm'>,
  { bank, afterId, paidSinceMs, limit }: AccountsRequest,
): Promise<AccountsPage> {
  const scannedMax = paidSinceMs === undefined ? limit : SCANNED_MAX
  const scanned = await listOpenAccounts(orm.em.fork(), bank, afterId, scannedMax)
  const ids = scanned.map(({ id }) => id)
  const paid =
    paidSinceMs === undefined ? undefined : await findPaidAccounts(pool, ids, paidSinceMs)
  const requested = scanned.filter(({ id }) => paid?.has(id) ?? true)
  const accounts = requested.slice(0, limit)
  const last = requested.length > limit ? accounts.at(-1) : scanned.at(-1)
  const more = requested.length > limit || scanned.length === scannedMax
  return { accounts, cursor: more ? last?.id : undefined }
}
