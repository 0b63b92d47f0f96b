import type { InferEntity } from '@mikro-orm/core'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { IdKind } from '../banks/bank.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { lockRow } from '../postgres/lock-row.ts'
import type { Database } from '../postgres/orm.ts'
import { AccountEntity } from './account.entity.ts'
import { identityContext, identityText, isOpened, type StoredAccount } from './account.ts'
import { getAccount, getAccountsOfCustomer } from './get-account.ts'

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
  /** The field of the request that has the number, for faults. */
  readonly field: string
}

interface Dependencies {
  readonly database: Database
  readonly encrypter: Encrypter
}

/** How many accounts of a customer one call upgrades. */
const ACCOUNTS_MAX = 100

/**
 * Attaches an identity number to accounts that were opened without one. All of them get it, or none. The hash of
 * the details stays that of the creation, so a repeated creation finds its account with the identity and without.
 *
 * No bank takes an identity for an account that is open, so none is asked.
 *
 * @returns the accounts, the newest first
 * @throws Fault not_found, account_pending, validation_failed (an account has another number, or the customer has
 * too many accounts)
 */
export async function attachIdentity(
  { database, encrypter }: Dependencies,
  target: Target,
  identity: Identity,
  actor: Actor,
): Promise<readonly StoredAccount[]> {
  const accounts = await findTargets(database, target)
  await database.orm.em.fork().transactional(async (em) => {
    const ids = accounts.map(({ id }) => id).toSorted()
    for (const id of ids) await lockRow(em, AccountEntity, id)
    const rows = await em.find(AccountEntity, { id: { $in: ids } })
    const upgraded = rows.filter((row) => needsIdentity(encrypter, row, target, identity))
    const { idType, idNumber } = identity
    for (const row of upgraded) {
      row.idType = idType
      row.idNumberEncrypted = encrypter.encrypt(idNumber, identityContext(row.id))
      row.idNumberHash = encrypter.fingerprint(identityText(idType, idNumber))
      await appendAudit(em, actor, {
        action: 'account.attach_identity',
        targetId: row.id,
        businessId: row.business,
        details: { reference: row.reference, idType },
      })
    }
  })
  return accounts
}

async function findTargets(
  { pool }: Database,
  { businessId, live, reference, customer }: Target,
): Promise<readonly StoredAccount[]> {
  if (reference !== '') {
    const account = await getAccount(pool, { businessId, live, reference })
    if (isOpened(account)) return [account]
    throw new Fault('account_pending', 'The account is still pending and cannot be upgraded')
  }
  const page = { after: undefined, limit: ACCOUNTS_MAX }
  const found = await getAccountsOfCustomer(pool, { businessId, live, email: customer }, page)
  if (found.length > ACCOUNTS_MAX) {
    const message = `has more than ${ACCOUNTS_MAX} accounts; upgrade them one by one, by reference`
    throw invalidFields([{ field: 'customer', message }])
  }
  const accounts = found.filter(isOpened)
  if (accounts.length > 0) return accounts
  throw new Fault('not_found', 'The customer has no open virtual account')
}

/**
 * Whether an account has no identity yet. An account of the customer keeps one of another kind.
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
