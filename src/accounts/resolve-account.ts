import type { Pool } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { Clock } from '../core/clock.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { accountNameOf, isOpened, type OpenAccount, type StoredAccount } from './account.ts'
import { getAccount } from './get-account.ts'
import { deleteUnclaimed, openPending } from './opening-store.ts'
import { isNumberTaken, newOpening, openAccount } from './store-opening.ts'

/** How an opening ended, by what a person found out at the bank. */
interface ResolveAccount {
  readonly businessId: string
  /** The returned one, or the business's own. */
  readonly reference: string
  /** Undefined: the bank opened nothing. */
  readonly opened:
    | {
        readonly accountNumber: string
        /** Empty: the name that was asked for. */
        readonly accountName: string
        readonly bankAccountId: string
      }
    | undefined
}

interface Dependencies {
  readonly pool: Pool
  readonly clock: Clock
  readonly aliasOf: (businessId: string) => Promise<string>
  readonly onCommit: () => void
}

/**
 * Ends an opening by hand.
 *
 * Faults: not_found, account_not_pending, bank_unavailable (the bank is being asked right now),
 * validation_failed (the number is taken).
 *
 * @returns the open account; undefined when there is none now
 */
export async function resolveAccount(
  { pool, clock, aliasOf, onCommit }: Dependencies,
  { businessId, reference, opened }: ResolveAccount,
  actor: Actor,
): Promise<OpenAccount | undefined> {
  const stored = await getAccount(pool, { businessId, live: undefined, reference })
  if (isOpened(stored)) throw notPending()
  const nowMs = clock.now()
  if (opened === undefined) {
    const deleted = await inTransaction(pool, async (client) => {
      if (!(await deleteUnclaimed(client, stored.id, nowMs))) return false
      await appendAudit(client, actor, noteOf(stored, { opened: false }))
      return true
    })
    if (deleted) return undefined
    throw await underWay(pool, businessId, reference)
  }
  const { accountNumber, bankAccountId } = opened
  const alias = await aliasOf(businessId)
  const accountName = opened.accountName || accountNameOf(alias, stored.firstName, stored.lastName)
  const account = openAccount(stored, accountNumber, accountName)
  try {
    const done = await inTransaction(pool, async (client) => {
      const opening = newOpening(account, bankAccountId, nowMs)
      if (!(await openPending(client, [opening], nowMs)).has(stored.id)) return false
      await appendAudit(client, actor, noteOf(stored, { opened: true, accountNumber }))
      return true
    })
    if (!done) throw await underWay(pool, businessId, reference)
  } catch (error) {
    if (!isNumberTaken(error)) throw error
    const message = 'is the number of another account'
    throw invalidFields([{ field: 'opened.accountNumber', message }])
  }
  onCommit()
  return account
}

function noteOf({ id, businessId, reference, bank }: StoredAccount, end: object) {
  const details = { reference, bank, ...end }
  return { action: 'account.resolve', targetId: id, businessId, details } as const
}

function notPending(): Fault {
  return new Fault('account_not_pending', 'The account is not pending; there is nothing to resolve')
}

/** Why nothing was changed: it was resolved meanwhile, or somebody is at the bank for it. */
async function underWay(pool: Pool, businessId: string, reference: string): Promise<Fault> {
  if (isOpened(await getAccount(pool, { businessId, live: undefined, reference })))
    return notPending()
  return new Fault('bank_unavailable', 'The bank is being asked for this account right now', {
    retryAfterSeconds: 15,
  })
}
