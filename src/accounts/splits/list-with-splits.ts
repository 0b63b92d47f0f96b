import type { Queryable } from '../../postgres/in-transaction.ts'
import type { StoredAccount } from '../account.ts'
import { listAccounts } from '../list-accounts.ts'
import type { Split } from './split.ts'
import { findSplits } from './split-store.ts'

/** A page of accounts, and the splits that they have now, by account. */
export async function listWithSplits(
  on: Queryable,
  filter: Parameters<typeof listAccounts>[1],
  page: Parameters<typeof listAccounts>[2],
): Promise<{
  readonly found: readonly StoredAccount[]
  readonly readUpTo: string | undefined
  readonly splits: ReadonlyMap<string, Split>
}> {
  const { accounts: found, readUpTo } = await listAccounts(on, filter, page)
  return {
    found,
    readUpTo,
    splits: await findSplits(
      on,
      found.map(({ id }) => id),
    ),
  }
}
