import type { Pool } from 'pg'
import { BANK_CODES } from '../banks/bank.ts'
import { Fault } from '../core/errors.ts'
import type { OpenAccount, StoredAccount } from './account.ts'
import { findByEitherReference, findByNumbers } from './store.ts'

/** Which account, as a caller knows it. */
export interface AccountKey {
  readonly businessId: string
  /** Undefined: of either mode, the live one before the test one. */
  readonly live: boolean | undefined
  /** The returned reference or the business's own. */
  readonly reference: string
}

/**
 * One account of a business.
 *
 * @throws Fault not_found: there is none, or it is another business's or of the other mode
 */
export async function getAccount(pool: Pool, key: AccountKey): Promise<StoredAccount> {
  const account = await findByEitherReference(pool, key.businessId, key.live, key.reference)
  if (account === undefined) throw new Fault('not_found', 'There is no such virtual account')
  return account
}

/**
 * The open accounts with a number, at whatever banks and in whatever modes, the live ones first.
 *
 * @throws Fault not_found: there is none
 */
export async function getOpenAccountsByNumber(
  pool: Pool,
  accountNumber: string,
): Promise<readonly [OpenAccount, ...OpenAccount[]]> {
  const keys = BANK_CODES.map((bank) => ({ bank, accountNumber }))
  const found = await findByNumbers(pool, keys)
  const [first, ...others] = found.toSorted((a, b) => Number(b.live) - Number(a.live))
  if (first === undefined) throw new Fault('not_found', 'There is no open account of that number')
  return [first, ...others]
}
