import { type InferEntity, LockMode } from '@mikro-orm/core'
import { appendAudit, appendAudits } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { BankOf, IdKind } from '../banks/bank.ts'
import { assert, Fault, invalidFields } from '../core/errors.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { Database } from '../postgres/orm.ts'
import { queryableOf } from '../postgres/queries-of.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { AccountEntity } from './account.entity.ts'
import {
  detailsText,
  identityContext,
  identityText,
  isOpened,
  type StoredAccount,
} from './account.ts'
import { type AccountKey, getAccount, getAccountsOfCustomer } from './get-account.ts'
import { findSplits } from './splits/split-store.ts'
import { readDetails, readHashedDetails, withoutIdentity } from './stored-details.ts'
import { expiryOf, newExpiryFault } from './terms.ts'

/** The fields that may change once the account is open; undefined: unchanged. */
interface AccountChange {
  readonly firstName: string | undefined
  readonly lastName: string | undefined
  readonly email: string | undefined
  readonly phone: string | undefined
  /** The new expiry of a one-time account. */
  readonly expiresAtMs: number | undefined
  /** The new expiry as a time from now; not together with `expiresAtMs`. */
  readonly expiresInSeconds: number | undefined
}

type Account = InferEntity<typeof AccountEntity>

const DETAILS = ['firstName', 'lastName', 'email', 'phone'] as const

interface Dependencies {
  readonly bankOf: BankOf
  readonly encrypter: Encrypter
}

/**
 * Changes the customer's details of an account that is open or closed, and the expiry of a one-time account
 * that has not ended. The name on the account stays, because it is the name at the bank. A change to the stored values does
 * nothing.
 *
 * Faults: not_found, account_pending (an attempt to open it may be in progress with its details),
 * validation_failed (the expiry).
 */
export async function updateAccount(
  { database, clock }: Runtime,
  { bankOf, encrypter }: Dependencies,
  key: AccountKey,
  change: AccountChange,
  actor: Actor,
): Promise<StoredAccount> {
  const stored = await getAccount(database.durablePool, key)
  if (!isOpened(stored)) {
    throw new Fault('account_pending', 'The account is still pending and cannot be changed')
  }
  // The first split never changes, so it is read without the lock.
  const split = (await findSplits(database.durablePool, [stored.id], 'first')).get(stored.id)
  await database.orm.em.fork().transactional(async (em) => {
    const lockMode = LockMode.PESSIMISTIC_WRITE
    const account = await em.findOne(AccountEntity, stored.id, { lockMode })
    assert(account, 'an account that was opened is never deleted')
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
    // A repeated creation is compared with the hash, and a rotation of the master key computes the hash from the row.
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
  return getAccount(database.durablePool, key)
}

/** @returns whether the value has changed */
function assign(
  account: Account,
  field: (typeof DETAILS)[number],
  value: string | undefined,
): boolean {
  if (value === undefined || value === account[field]) return false
  account[field] = value
  return true
}

/** @param endsItself whether the bank ends the account at its first expiry */
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

/** One account by either reference, or all accounts of a customer by the e-mail address as it is stored. */
interface Target {
  readonly businessId: string
  readonly live: boolean
  /** Empty: by `customer`. */
  readonly reference: string
  readonly customer: string
}

export interface Identity {
  readonly idType: IdKind
  readonly idNumber: string
  /** The field of the request that contains the number, for faults. */
  readonly field: string
}

interface IdentityDependencies {
  readonly encrypter: Encrypter
}

/** The most accounts of a customer that one call upgrades. */
const ACCOUNTS_MAX = 100

/**
 * Attaches an identity number to accounts that were opened without one: to all of them, or to none. The hash of the
 * details stays unchanged, so a repeated creation finds its account with or without the identity.
 *
 * No bank is asked, because no bank accepts an identity for an open account.
 *
 * @returns the accounts, newest first
 * @throws Fault not_found, account_pending, validation_failed (an account has another number, or the customer has
 * too many accounts)
 */
export async function attachIdentity(
  { database }: Runtime,
  { encrypter }: IdentityDependencies,
  target: Target,
  identity: Identity,
  actor: Actor,
): Promise<readonly StoredAccount[]> {
  const accounts = await findTargets(database, target)
  await database.orm.em.fork().transactional(async (em) => {
    const ids = accounts.map(({ id }) => id)
    const locked = { orderBy: { id: 'asc' }, lockMode: LockMode.PESSIMISTIC_WRITE } as const
    const rows = await em.find(AccountEntity, { id: { $in: ids } }, locked)
    const upgraded = rows.filter((row) => needsIdentity(encrypter, row, target, identity))
    const { idType, idNumber } = identity
    for (const row of upgraded) {
      row.idType = idType
      row.idNumberEncrypted = encrypter.encrypt(idNumber, identityContext(row.id))
      row.idNumberHash = encrypter.fingerprint(identityText(idType, idNumber))
    }
    const [first, ...others] = upgraded.map(({ id: targetId, business, reference }) => {
      const entry = { targetId, businessId: business.id, details: { reference, idType } }
      return { actor, change: { action: 'account.attach_identity', ...entry } } as const
    })
    if (first === undefined) return
    // Appended at once, because every other change waits from the first entry to the commit.
    await em.flush()
    await appendAudits(queryableOf(em), [first, ...others])
  })
  return accounts
}

async function findTargets(
  { durablePool }: Database,
  { businessId, live, reference, customer }: Target,
): Promise<readonly StoredAccount[]> {
  if (reference !== '') {
    const account = await getAccount(durablePool, { businessId, live, reference })
    if (isOpened(account)) return [account]
    throw new Fault('account_pending', 'The account is still pending and cannot be upgraded')
  }
  const page = { after: undefined, limit: ACCOUNTS_MAX }
  const found = await getAccountsOfCustomer(
    durablePool,
    { businessId, live, email: customer },
    page,
  )
  if (found.length > ACCOUNTS_MAX) {
    const message = `has more than ${ACCOUNTS_MAX} accounts; upgrade them one by one, by reference`
    throw invalidFields([{ field: 'customer', message }])
  }
  const accounts = found.filter(isOpened)
  if (accounts.length > 0) return accounts
  throw new Fault('not_found', 'The customer has no open virtual account')
}

/**
 * Whether an account has no identity yet. An account of the customer keeps an identity of another kind.
 *
 * @throws Fault validation_failed if it has another number
 */
function needsIdentity(
  encrypter: Encrypter,
  { id, reference, idType, idNumberEncrypted }: InferEntity<typeof AccountEntity>,
  target: Target,
  { idType: kind, idNumber, field }: Identity,
): boolean {
  if (!idNumberEncrypted) return true
  const isSameKind = (idType ?? kind) === kind
  if (!isSameKind && target.reference === '') return false
  if (isSameKind && encrypter.decrypt(idNumberEncrypted, identityContext(id)) === idNumber) {
    return false
  }
  const stored = isSameKind ? `another ${kind}` : `a ${idType}`
  throw invalidFields([{ field, message: `cannot be attached: ${reference} has ${stored}` }])
}
