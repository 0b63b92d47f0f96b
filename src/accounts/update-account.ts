import type { EntityManager } from '@mikro-orm/postgresql'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert, Fault } from '../core/errors.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { lockRow } from '../postgres/lock-row.ts'
import type { Database } from '../postgres/orm.ts'
import { AccountEntity } from './account.entity.ts'
import { detailsText, identityContext, isOpened, type StoredAccount } from './account.ts'
import { type AccountKey, getAccount } from './get-account.ts'

/** The customer's details that may change after the account is open; undefined: unchanged. */
interface CustomerChange {
  readonly firstName: string | undefined
  readonly lastName: string | undefined
  readonly email: string | undefined
  readonly phone: string | undefined
}

const FIELDS = ['firstName', 'lastName', 'email', 'phone'] as const

interface Dependencies {
  readonly database: Database
  readonly encrypter: Encrypter
}

/**
 * Changes the customer's details of an account that is open or closed. The name on the account stays:
 * it is the bank's. A change to what is already stored does nothing.
 *
 * Faults: not_found, account_pending (an attempt to open it may be in progress with its details).
 */
export async function updateAccount(
  { database, encrypter }: Dependencies,
  key: AccountKey,
  change: CustomerChange,
  actor: Actor,
): Promise<StoredAccount> {
  const stored = await getAccount(database.pool, key)
  if (!isOpened(stored)) {
    throw new Fault('account_pending', 'The account is still pending and cannot be changed')
  }
  await database.orm.em.fork().transactional(async (em) => {
    const changed = await assignDetails(em, encrypter, stored.id, change)
    if (changed.length === 0) return
    const { id: targetId, businessId, reference } = stored
    const details = { reference, changed }
    await appendAudit(em, actor, { action: 'account.update', targetId, businessId, details })
  })
  return getAccount(database.pool, key)
}

/** @returns the names of the fields that changed */
async function assignDetails(
  em: EntityManager,
  encrypter: Encrypter,
  id: string,
  change: CustomerChange,
): Promise<readonly string[]> {
  await lockRow(em, AccountEntity, id)
  const account = await em.findOne(AccountEntity, id)
  assert(account, 'an account that was opened is never deleted')
  const changed: string[] = []
  for (const field of FIELDS) {
    const value = change[field]
    if (value === undefined || value === account[field]) continue
    account[field] = value
    changed.push(field)
  }
  if (changed.length === 0) return changed
  // A repeated creation is compared with it, and a rotation of the master key computes it from the row.
  const { idType, idNumberEncrypted } = account
  const idNumber = idNumberEncrypted
    ? encrypter.decrypt(idNumberEncrypted, identityContext(id))
    : undefined
  const details = detailsText({ ...account, idType: idType ?? undefined, idNumber })
  account.detailsHash = encrypter.fingerprint(details)
  return changed
}
