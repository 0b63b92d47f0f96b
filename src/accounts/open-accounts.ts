import { LRUCache } from 'lru-cache'
import type { Pool } from 'pg'
import type { BankCode, IsSimulated } from '../banks/bank.ts'
import { isCreditable, type OpenAccount } from './account.ts'
import { findByNumbers } from './store.ts'

/** The most accounts of each mode that are cached, if they have less than a kilobyte of metadata. */
const ACCOUNTS_MAX = 50_000

/** How long the events of payments may contain outdated customer details. */
const CACHED_MS = 60_000

const KILOBYTE = 1_024

interface AccountKey {
  readonly bank: BankCode
  readonly accountNumber: string
  /** True: live only; false: test only; undefined: the live account, else the test account. */
  readonly live: boolean | undefined
}

/**
 * Finds the open accounts that payments may be credited to, by bank and number, in order; undefined
 * where there is none.
 */
export type FindOpenAccounts = (
  keys: readonly AccountKey[],
) => Promise<readonly (OpenAccount | undefined)[]>

/**
 * Caches the accounts that it finds. The statement that records a payment checks the status again, and the progress of a
 * one-time account is read for each payment. Otherwise only the customer's details of an account ever change.
 *
 * A live account of the sandbox is found only while the sandbox serves its bank: otherwise the money
 * is real, and the number may be a stranger's.
 *
 * If the key allows either mode, a cached test account is not enough: a live account may have got the same number since,
 * and then the money belongs to the live account.
 */
export function createFindOpenAccounts(pool: Pool, isSimulated: IsSimulated): FindOpenAccounts {
  const bounds = {
    maxSize: ACCOUNTS_MAX,
    sizeCalculation: sizeOf,
    ttl: CACHED_MS,
    ttlResolution: 1_000,
  }
  const caches = {
    live: new LRUCache<string, OpenAccount>(bounds),
    test: new LRUCache<string, OpenAccount>(bounds),
  }
  const keyOf = (key: Omit<AccountKey, 'live'>) => key.bank + key.accountNumber
  return async (keys) => {
    const missing = new Map<string, AccountKey>()
    const live = new Map<string, OpenAccount>()
    const test = new Map<string, OpenAccount>()
    for (const key of keys) {
      const text = keyOf(key)
      const [cache, found] = key.live === false ? [caches.test, test] : [caches.live, live]
      const account = cache.get(text)
      if (account === undefined) missing.set(text, key)
      else found.set(text, account)
    }
    if (missing.size > 0) {
      for (const account of await findByNumbers(pool, [...missing.values()])) {
        const [cache, found] = account.live ? [caches.live, live] : [caches.test, test]
        cache.set(keyOf(account), account)
        found.set(keyOf(account), account)
      }
    }
    return keys.map((key) => {
      const text = keyOf(key)
      const account =
        key.live === undefined
          ? (live.get(text) ?? test.get(text))
          : (key.live ? live : test).get(text)
      return account && isCreditable(account, isSimulated) ? account : undefined
    })
  }
}

function sizeOf({ metadata, terms }: OpenAccount): number {
  if (metadata === undefined && terms === undefined) return 1
  const length = JSON.stringify([metadata, terms?.allowedPayers]).length
  return 1 + Math.floor(length / KILOBYTE)
}
