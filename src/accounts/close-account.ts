import type { Pool } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { accessDenied } from '../banks/access-denied.ts'
import type { BankOf, Closing } from '../banks/bank.ts'
import type { Clock } from '../core/clock.ts'
import { Fault } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { isOpened, type OpenAccount, type StoredAccount } from './account.ts'
import { type AccountKey, getAccount } from './get-account.ts'
import { encodeAccountEvent } from './message.ts'
import { closeOpen } from './openings/opening-store.ts'

const CLOSED = { kind: 'closed' } as const

interface Dependencies {
  readonly pool: Pool
  readonly bankOf: BankOf
  readonly clock: Clock
  /** Called after a commit that added events. */
  readonly onCommit: () => void
}

/**
 * Closes an account. If the connector that opened it still serves the bank, and supports closing, the account is closed there first, so that an
 * account that is CLOSED here is closed at the bank too; a repeat after an error closes it at the
 * bank again. Closing a CLOSED account does nothing.
 *
 * Faults: not_found, account_pending, bank_unavailable (the account is still open).
 */
export async function closeAccount(
  { pool, bankOf, clock, onCommit }: Dependencies,
  key: AccountKey,
  actor: Actor,
): Promise<OpenAccount> {
  const stored = await getAccount(pool, key)
  if (!isOpened(stored)) {
    throw new Fault('account_pending', 'The account is still pending and cannot be closed')
  }
  const account: OpenAccount = { ...stored, status: 'CLOSED' }
  if (stored.status === 'CLOSED') return account
  // An account that ended by itself is closed at the bank by the job.
  const result = stored.status === 'EXPIRED' ? CLOSED : await closeAtBank(bankOf, stored)
  if (result.kind !== 'closed') {
    if (result.refusal === 'access') throw accessDenied(result.cause)
    const text = 'The bank did not close the account; repeat the request'
    throw new Fault('bank_unavailable', text, { retryAfterSeconds: 5, cause: result.cause })
  }
  const occurredAtMs = clock.now()
  const eventId = newId('evt', occurredAtMs)
  const payload = encodeAccountEvent('ACCOUNT_CLOSED', account, eventId, occurredAtMs)
  // False if another call closed the account meanwhile; that call appended the event.
  const closed = await inTransaction(pool, async (client) => {
    if (!(await closeOpen(client, account.id, { eventId, occurredAtMs, payload }))) return false
    const { accountNumber, bank } = account
    await appendAudit(client, actor, {
      action: 'account.close',
      targetId: account.id,
      businessId: account.businessId,
      details: { reference: account.reference, bank, accountNumber },
    })
    return true
  })
  if (closed) onCommit()
  return account
}

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
