import { LRUCache } from 'lru-cache'
import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import type { OpenAccount } from './account.ts'
import { findByNumbers } from './store.ts'

/** How many accounts of each mode are remembered. */
const ACCOUNTS_MAX = 50_000

interface AccountKey {
  readonly bank: BankCode
  readonly accountNumber: string
  /** True: a live account only; false: a test one only; undefined: the live one, else the test one. */
  readonly live: boolean | undefined
}

/** Finds open accounts by bank and number; undefined in the place of one that does not exist. */
export type FindOpenAccounts = (
  keys: readonly AccountKey[],
) => Promise<readonly (OpenAccount | undefined)[]>

/**
 * Remembers what it found. Nothing of an open account changes but its status, and the statement
 * that records a payment checks that again.
 *
 * Where either mode will do, a remembered test account is not enough: a live one may have been given
 * the same number meanwhile, and then the money is its own.
 */
export function createFindOpenAccounts(pool: Pool): FindOpenAccounts {
  const max = ACCOUNTS_MAX
  const remembered = {
    live: new LRUCache<string, OpenAccount>({ max }),
    test: new LRUCache<string, OpenAccount>({ max }),
  }
  const keyOf = (key: Omit<AccountKey, 'live'>) => key.bank + key.accountNumber
  return async (keys) => {
    const missing = new Map<string, AccountKey>()
    const live = new Map<string, OpenAccount>()
    const test = new Map<string, OpenAccount>()
    for (const key of keys) {
      const text = keyOf(key)
      const [known, found] = key.live === false ? [remembered.test, test] : [remembered.live, live]
      const account = known.get(text)
      if (account === undefined) missing.set(text, key)
      else found.set(text, account)
    }
    if (missing.size > 0) {
      for (const account of await findByNumbers(pool, [...missing.values()])) {
        const [known, found] = account.live ? [remembered.live, live] : [remembered.test, test]
        known.set(keyOf(account), account)
        found.set(keyOf(account), account)
      }
    }
    return keys.map((key) => {
      const text = keyOf(key)
      if (key.live !== undefined) return (key.live ? live : test).get(text)
      return live.get(text) ?? test.get(text)
    })
  }
}
