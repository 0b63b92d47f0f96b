import type { Pool } from 'pg'
import { BANK_CODES } from '../banks/bank.ts'
import { Fault } from '../errors.ts'
import type { OpenAccount, StoredAccount } from './account.ts'
import { findByEitherReference, findByNumbers } from './store.ts'

/**
 * One account of a business, by the returned reference or its own.
 *
 * @throws Fault not_found: there is none, or it is another business's
 */
export async function getAccount(
  pool: Pool,
  businessId: string,
  reference: string,
): Promise<StoredAccount> {
  const account = await findByEitherReference(pool, businessId, reference)
  if (account === undefined) throw new Fault('not_found', 'There is no such virtual account')
  return account
}

/**
 * The open account with a number, whatever its bank. Should two banks have given the number out, it
 * is one of them.
 *
 * @throws Fault not_found
 */
export async function getOpenAccountByNumber(
  pool: Pool,
  accountNumber: string,
): Promise<OpenAccount> {
  const keys = BANK_CODES.map((bank) => ({ bank, accountNumber }))
  const account = (await findByNumbers(pool, keys))[0]
  if (account === undefined) throw new Fault('not_found', 'There is no open account of that number')
  return account
}
