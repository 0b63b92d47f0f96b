import type { BankOf, Closing } from '../banks/bank.ts'
import type { OpenAccount, StoredAccount } from './account.ts'

/**
 * Closes an account at its bank, if the connector that opened it still serves the bank, and supports closing. A
 * bank does not know the accounts of the sandbox: their numbers may be a stranger's.
 */
export async function closeAtBank(
  bankOf: BankOf,
  account: StoredAccount & OpenAccount,
): Promise<Closing> {
  const served = bankOf(account)
  if (served?.name !== account.connector) return { kind: 'closed' }
  const { closeAccount: close } = served.connector
  if (close === undefined) return { kind: 'closed' }
  const { reference, accountNumber, bankAccountId } = account
  const signal = AbortSignal.timeout(served.callTimeoutMs)
  return close({ reference, accountNumber, bankAccountId }, signal)
}
