import type { Pool } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor, BusinessScope } from '../auth/caller.ts'
import { type AccountResult, accessDenied, type BankCode, type BankOf } from '../banks/bank.ts'
import { plainText } from '../banks/bank-fields.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { accountNameOf, isOpened, type OpenAccount, type StoredAccount } from './account.ts'
import { getAccount } from './get-account.ts'
import { orderOf } from './open-at-bank.ts'
import {
  deleteUnclaimed,
  isNumberTaken,
  newOpening,
  openAccount,
  openPending,
} from './opening-store.ts'

/** The result of an opening, as an operator learned it from the bank. */
interface ResolveAccount {
  readonly businessId: string
  /** The reference that Inflow returned, or the business's own. */
  readonly reference: string
  /** Undefined if the bank opened nothing. */
  readonly opened:
    | {
        readonly accountNumber: string
        /** Empty: the requested name. */
        readonly accountName: string
        readonly bankAccountId: string
      }
    | undefined
}

const NAME_CHARACTERS_MAX = 200

interface Dependencies {
  readonly bankOf: BankOf
  readonly aliasOf: (businessId: string) => Promise<string>
}

/**
 * Resolves a PENDING account with the result that an operator learned from the bank. If the bank can be asked, it must
 * confirm the number.
 *
 * Faults: not_found, account_not_pending, bank_unavailable (another call is asking the bank, or the bank
 * cannot be asked now), validation_failed (the number belongs to another account, or the bank does not
 * confirm it).
 *
 * @returns the ACTIVE account; undefined if the bank opened nothing and the account was deleted
 */
export async function resolveAccount(
  { database, clock, onCommit }: Runtime,
  { bankOf, aliasOf }: Dependencies,
  { businessId, reference, opened }: ResolveAccount,
  actor: Actor,
): Promise<OpenAccount | undefined> {
  const { durablePool, orm } = database
  const stored = await getAccount(durablePool, { businessId, live: undefined, reference })
  if (isOpened(stored)) throw notPending()
  const nowMs = clock.now()
  if (opened === undefined) {
    const deleted = await orm.em.fork().transactional(async (em) => {
      if (!(await deleteUnclaimed(em, stored.id, nowMs))) return false
      await appendAudit(em, actor, auditEntry(stored, { opened: false }))
      return true
    })
    if (deleted) return undefined
    throw await whyUnresolved(durablePool, businessId, reference)
  }
  const { accountNumber } = opened
  const alias = await aliasOf(businessId)
  const confirmed = await confirmOpening(bankOf, stored, accountNumber, alias)
  const bankAccountId = opened.bankAccountId || (confirmed?.bankAccountId ?? '')
  const requestedName = accountNameOf(alias, stored.firstName, stored.lastName)
  const accountName =
    opened.accountName || plainText(confirmed?.accountName ?? requestedName, NAME_CHARACTERS_MAX)
  const account = openAccount(stored, accountNumber, accountName)
  try {
    const resolved = await inTransaction(durablePool, async (client) => {
      const opening = newOpening(account, bankAccountId, nowMs)
      if (!(await openPending(client, [opening], nowMs)).has(stored.id)) return false
      await appendAudit(client, actor, auditEntry(stored, { opened: true, accountNumber }))
      return true
    })
    if (!resolved) throw await whyUnresolved(durablePool, businessId, reference)
  } catch (error) {
    if (!isNumberTaken(error)) throw error
    const message = 'belongs to another account'
    throw invalidFields([{ field: 'opened.accountNumber', message }])
  }
  onCommit()
  return account
}

function auditEntry({ id, businessId, reference, bank }: StoredAccount, result: object) {
  const details = { reference, bank, ...result }
  return { action: 'account.resolve', targetId: id, businessId, details } as const
}

function notPending(): Fault {
  return new Fault('account_not_pending', 'The account is not pending; there is nothing to resolve')
}

/** Why nothing changed: the account was resolved in the meantime, or another call is asking the bank. */
async function whyUnresolved(pool: Pool, businessId: string, reference: string): Promise<Fault> {
  if (isOpened(await getAccount(pool, { businessId, live: undefined, reference })))
    return notPending()
  return new Fault('bank_unavailable', 'Another call is asking the bank for this account', {
    retryAfterSeconds: 15,
  })
}

const CAUSE_CHARACTERS_MAX = 200

type Opened = Extract<AccountResult, { kind: 'opened' }>

/**
 * Asks the bank whether it opened a PENDING account with this number.
 *
 * Faults: validation_failed (the bank opened no account, or an account with another number), bank_unavailable (the bank
 * cannot be asked now; or the sandbox was asked, and no longer serves the bank).
 *
 * @param alias the prefix of the business's account names
 * @returns the account as the bank reports it; undefined if the bank has no such query
 */
async function confirmOpening(
  bankOf: BankOf,
  account: StoredAccount,
  accountNumber: string,
  alias: string,
): Promise<Opened | undefined> {
  const served = bankOf(account)
  if (served?.name !== account.connector) {
    // A bank that is no longer live cannot be asked, but the operator has asked it.
    if (account.connector === 'live') return undefined
    throw new Fault(
      'bank_unavailable',
      'The sandbox was asked to open this account, but no longer serves the bank: resolve the account as not opened, or repeat its creation',
      { retryAfterSeconds: 300 },
    )
  }
  const signal = AbortSignal.timeout(served.callTimeoutMs)
  const order = orderOf(account, alias, {
    // A query needs no identity number.
    idType: undefined,
    idNumber: undefined,
    attempt: account.attempts,
    repeated: true,
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

/** An account whose opening waits for an operator. */
interface WaitingOpening {
  readonly id: string
  readonly businessId: string
  readonly live: boolean
  readonly reference: string
  readonly bank: BankCode
  readonly cause: string
  readonly createdAtMs: number
}

/** The accounts whose opening has no clear result, oldest first. @param after the last id of the previous page */
export async function listInReview(
  on: Queryable,
  filter: BusinessScope,
  after: string,
  limit: number,
): Promise<readonly WaitingOpening[]> {
  const { text, values } = inReview(filter, after, limit)
  const { rows } = await on.query<WaitingOpening>(
    `select id, business_id as "businessId", live, reference, bank, last_cause as cause,
        round(date_part('epoch', created_at) * 1000) as "createdAtMs"
      from account where id = any (array(${text})) order by id`,
    values,
  )
  return rows
}

/** Counts the openings in review that pass the filter, up to `max`. */
export async function countInReview(
  on: Queryable,
  filter: BusinessScope,
  max: number,
): Promise<number> {
  const { text, values } = inReview(filter, '', max)
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (${text}) waiting`,
    values,
  )
  return rows[0]?.count ?? 0
}

/** SQL: one range of a partial index for each mode, and for each business if the filter names some. */
function inReview({ businessIds, live }: BusinessScope, after: string, limit: number) {
  const modes = live === undefined ? [true, false] : [live]
  const values: unknown[] = [limit, after, modes]
  if (businessIds !== undefined) values.push(businessIds)
  const businesses = businessIds === undefined ? '' : 'cross join unnest($4::text[]) as b(id)'
  const text = `select a.id from unnest($3::boolean[]) as m(live) ${businesses}
      cross join lateral (select id from account where live = m.live
        ${businessIds === undefined ? '' : 'and business_id = b.id'} and id > $2
        and status = 'PENDING' and opening_state = 'MANUAL_REVIEW' order by id limit $1) a
      order by a.id limit $1`
  return { text, values }
}

/** Counts the accounts of a mode that wait for their bank to open them, by bank, up to a bound. */
export async function countPending(
  on: Queryable,
  live: boolean,
  max: number,
): Promise<ReadonlyMap<BankCode, number>> {
  const { rows } = await on.query<{ bank: BankCode; count: number }>(
    `select bank, count(*)::int as count from (
        select bank from account where live = $1 and status = 'PENDING' limit $2) pending
      group by bank`,
    [live, max],
  )
  return new Map(rows.map(({ bank, count }) => [bank, count]))
}
