import { accessDenied } from '../../banks/access-denied.ts'
import type { AccountResult, BankOf } from '../../banks/bank.ts'
import { plainText } from '../../banks/plain-text.ts'
import { Fault, invalidFields } from '../../core/errors.ts'
import type { StoredAccount } from '../account.ts'
import { orderOf } from './open-at-bank.ts'

const CAUSE_CHARACTERS_MAX = 200

type Opened = Extract<AccountResult, { kind: 'opened' }>

/**
 * Asks the bank whether it opened a PENDING account with this number.
 *
 * Faults: validation_failed (the bank opened none, or one with another number), bank_unavailable (the
 * bank cannot be asked now; or the sandbox was asked, and no longer serves the bank).
 *
 * @param alias the prefix of the business's account names
 * @returns the account as the bank reports it; undefined if the bank has no such query
 */
export async function confirmOpening(
  bankOf: BankOf,
  account: StoredAccount,
  accountNumber: string,
  alias: string,
): Promise<Opened | undefined> {
  const served = bankOf(account)
  if (served?.name !== account.connector) {
    // A bank that is no longer live cannot be asked; the operator has asked it.
    if (account.connector === 'live') return undefined
    throw new Fault(
      'bank_unavailable',
      'The sandbox was asked to open this account, and no longer serves the bank: resolve it as not opened, or repeat its creation',
      { retryAfterSeconds: 300 },
    )
  }
  const signal = AbortSignal.timeout(served.callTimeoutMs)
  const order = orderOf(account, alias, {
    // A query needs no identity number.
    ...{ idType: undefined, idNumber: undefined },
    ...{ attempt: account.attempts, repeated: true },
  })
  const { findNumber, findOpened } = served.connector
  const found = findNumber
    ? await findNumber(order, accountNumber, signal)
    : await findOpened?.(order, signal)
  if (found === undefined) return undefined
  if (found.kind === 'opened' && found.accountNumber === accountNumber) return found
  if (found.kind === 'unknown') {
    if (found.refusal === 'access') throw accessDenied(found.cause)
    const cause = plainText(found.cause, CAUSE_CHARACTERS_MAX)
    throw new Fault('bank_unavailable', `The bank does not confirm the account: ${cause}`, {
      retryAfterSeconds: 15,
      cause,
    })
  }
  const message =
    found.kind === 'opened'
      ? 'is not the number that the bank has for this account'
      : 'is not confirmed: the bank says that it opened no such account'
  throw invalidFields([{ field: 'opened.accountNumber', message }])
}
