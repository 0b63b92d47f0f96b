import type { Pool } from 'pg'
import { BANK_CODES } from '../banks/bank.ts'
import { Fault } from '../core/errors.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { OpenAccount, StoredAccount } from './account.ts'
import { findByEitherReference, findByNumbers } from './store.ts'

/** Identifies an account by a reference that the caller knows. */
export interface AccountKey {
  readonly businessId: string
  /** Undefined: either mode; the live account is preferred. */
  readonly live: boolean | undefined
  /** The reference that Inflow returned, or the business's own. */
  readonly reference: string
}

/**
 * Returns one account of a business.
 *
 * @throws Fault not_found if it does not exist, or belongs to another business or the other mode
 */
export async function getAccount(pool: Queryable, key: AccountKey): Promise<StoredAccount> {
  const account = await findByEitherReference(pool, key.businessId, key.live, key.reference)
  if (account === undefined) throw new Fault('not_found', 'There is no such virtual account')
  return account
}

export { findAccountsOfNumbers, findByEitherReference, getAccountsOfCustomer } from './store.ts'

/**
 * Returns the open accounts with this number at any bank and in any mode, live accounts first.
 *
 * @throws Fault not_found if there is none
 */
export async function getOpenAccountsByNumber(
  pool: Pool,
  accountNumber: string,
): Promise<readonly [OpenAccount, ...OpenAccount[]]> {
  const keys = BANK_CODES.map((bank) => ({ bank, accountNumber }))
  const found = await findByNumbers(pool, keys)
  const [first, ...others] = found.toSorted((a, b) => Number(b.live) - Number(a.live))
  if (first === undefined) throw new Fault('not_found', 'No open account has this number')
  return [first, ...others]
}
