import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import type { OpenAccount } from './account.ts'
import { findByNumbers } from './store.ts'

/** How many accounts are remembered. */
const ACCOUNTS_MAX = 50_000

interface AccountKey {
  readonly bank: BankCode
  readonly accountNumber: string
}

/** Finds open accounts by bank and number; undefined in the place of one that does not exist. */
export type FindOpenAccounts = (
  keys: readonly AccountKey[],
) => Promise<readonly (OpenAccount | undefined)[]>

/**
 * Remembers what it found. Nothing of an open account changes but its status, and the statement
 * that records a payment checks that again.
 */
export function createFindOpenAccounts(pool: Pool): FindOpenAccounts {
  const remembered = new Map<string, OpenAccount>()
  const keyOf = (key: AccountKey) => key.bank + key.accountNumber
  return async (keys) => {
    const missing = new Map<string, AccountKey>()
    const found = new Map<string, OpenAccount>()
    for (const key of keys) {
      const text = keyOf(key)
      const account = remembered.get(text)
      if (account === undefined) missing.set(text, key)
      else found.set(text, account)
    }
    if (missing.size > 0) {
      for (const account of await findByNumbers(pool, [...missing.values()])) {
        if (remembered.size >= ACCOUNTS_MAX) forgetOldest(remembered)
        remembered.set(keyOf(account), account)
        found.set(keyOf(account), account)
      }
    }
    return keys.map((key) => found.get(keyOf(key)))
  }
}

/** Drops a tenth at a time, the longest known first. */
function forgetOldest(remembered: Map<string, OpenAccount>): void {
  let left = ACCOUNTS_MAX / 10
  for (const key of remembered.keys()) {
    if (left === 0) return
    remembered.delete(key)
    left -= 1
  }
}
