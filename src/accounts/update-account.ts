import type { InferEntity } from '@mikro-orm/core'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { BankOf } from '../banks/bank.ts'
import type { Clock } from '../core/clock.ts'
import { assert, Fault, invalidFields } from '../core/errors.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { lockRow } from '../postgres/lock-row.ts'
import type { Database } from '../postgres/orm.ts'
import { AccountEntity } from './account.entity.ts'
import { detailsText, isOpened, type StoredAccount } from './account.ts'
import { type AccountKey, getAccount } from './get-account.ts'
import { findSplits } from './splits/split-store.ts'
import { readDetails, readHashedDetails, withoutIdentity } from './stored-details.ts'
import { expiryOf, newExpiryFault } from './terms.ts'

/** What may change after the account is open; undefined: unchanged. */
interface AccountChange {
  readonly firstName: string | undefined
  readonly lastName: string | undefined
  readonly email: string | undefined
  readonly phone: string | undefined
  /** The new expiry of a one-time account. */
  readonly expiresAtMs: number | undefined
  /** The same, from now on; not together with `expiresAtMs`. */
  readonly expiresInSeconds: number | undefined
}

type Account = InferEntity<typeof AccountEntity>

const DETAILS = ['firstName', 'lastName', 'email', 'phone'] as const

interface Dependencies {
  readonly database: Database
  readonly bankOf: BankOf
  readonly encrypter: Encrypter
  readonly clock: Clock
}

/**
 * Changes the customer's details of an account that is open or closed, and the expiry of a one-time account
 * that has not ended. The name on the account stays: it is the bank's. A change to what is already stored
 * does nothing.
 *
 * Faults: not_found, account_pending (an attempt to open it may be in progress with its details),
 * validation_failed (the expiry).
 */
export async function updateAccount(
  { database, bankOf, encrypter, clock }: Dependencies,
  key: AccountKey,
  change: AccountChange,
  actor: Actor,
): Promise<StoredAccount> {
  const stored = await getAccount(database.pool, key)
  if (!isOpened(stored)) {
    throw new Fault('account_pending', 'The account is still pending and cannot be changed')
  }
  await database.orm.em.fork().transactional(async (em) => {
    await lockRow(em, AccountEntity, stored.id)
    const account = await em.findOne(AccountEntity, stored.id)
    assert(account, 'an account that was opened is never deleted')
    const splits = await findSplits(database.pool, [stored.id], 'first')
    const split = splits.get(stored.id)
    const hashed = readHashedDetails(encrypter, account, split)
    const changed: string[] = DETAILS.filter((field) => assign(account, field, change[field]))
    const expiresAtMs = expiryOf(change, clock.now())
    if (expiresAtMs !== undefined && expiresAtMs !== account.expiresAt?.getTime()) {
      const endsItself = bankOf(stored)?.connector.fixesExpiry === true
      checkExpiry(account, expiresAtMs, clock.now(), endsItself)
      account.expiresAt = account.endDueAt = new Date(expiresAtMs)
      account.expiresInSeconds = null
      changed.push('expiresAt')
    }
    if (changed.length === 0) return
    // A repeated creation is compared with it, and a rotation of the master key computes it from the row.
    const details = { ...readDetails(encrypter, account), split }
    const isAttached = hashed !== undefined && hashed.idNumber === undefined
    const compared = isAttached ? withoutIdentity(details) : details
    account.detailsHash = encrypter.fingerprint(detailsText(compared))
    const { id: targetId, businessId, reference } = stored
    await appendAudit(em, actor, {
      action: 'account.update',
      targetId,
      businessId,
      details: { reference, changed },
    })
  })
  return getAccount(database.pool, key)
}

/** @returns whether it is another value */
function assign(
  account: Account,
  field: (typeof DETAILS)[number],
  value: string | undefined,
): boolean {
  if (value === undefined || value === account[field]) return false
  account[field] = value
  return true
}

/** @param endsItself whether its bank ends it at the first expiry */
function checkExpiry(account: Account, expiresAtMs: number, nowMs: number, endsItself: boolean) {
  const refuse = (message: string) => {
    throw invalidFields([{ field: 'expiresAt', message }])
  }
  if (!account.oneTime) refuse('must be absent: the account is permanent')
  if (account.status !== 'ACTIVE' || account.usedAt) refuse('must be absent: the account has ended')
  const fault = newExpiryFault(expiresAtMs, nowMs)
  if (fault) throw fault
  if (endsItself && account.expiresAt && expiresAtMs > account.expiresAt.getTime()) {
    refuse('must be earlier than before: the bank ends the account at its first expiry')
  }
}
