import type { Pool, PoolClient } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { accessDenied, type BankOf, type Closing } from '../banks/bank.ts'
import { DAY_MS } from '../core/durations.ts'
import { Fault } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { byteaArray, textArray } from '../postgres/binary-arrays.ts'
import { afterCommit, inTransaction } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Semaphore } from '../postgres/semaphore.ts'
import { isOpened, type OpenAccount, type StoredAccount } from './account.ts'
import { type AccountKey, getAccount } from './get-account.ts'
import { encodeAccountEvent } from './message.ts'
import { closeOpen } from './opening-store.ts'
import { ACCOUNT_COLUMNS, type AccountRow, toStored } from './store.ts'

const CLOSED = { kind: 'closed' } as const

/** An account that the bank has opened, with the bank's identifiers. */
type OpenedAccount = StoredAccount & OpenAccount

interface Dependencies {
  readonly bankOf: BankOf
}

interface ClosingDependencies extends Dependencies {
  /** Limits how many calls hold a connection while they wait for the account's row or the audit log. */
  readonly semaphore: Semaphore
}

/**
 * Closes an account. If the connector that opened it still serves the bank and supports closing, the account is first
 * closed at the bank, so that an account that is CLOSED here is also closed there. A repeated call after an error closes it
 * at the bank again. Closing a CLOSED account does nothing.
 *
 * Faults: not_found, account_pending, bank_unavailable (the account is still open).
 */
export async function closeAccount(
  { database: { durablePool }, clock, onCommit }: Runtime,
  { bankOf, semaphore }: ClosingDependencies,
  key: AccountKey,
  actor: Actor,
): Promise<OpenAccount> {
  const stored = await getAccount(durablePool, key)
  if (!isOpened(stored)) {
    throw new Fault('account_pending', 'The account is still pending and cannot be closed')
  }
  const account: OpenAccount = { ...stored, status: 'CLOSED' }
  if (stored.status === 'CLOSED') return account
  // The job closes expired and used-up accounts at their banks.
  const result = stored.status === 'EXPIRED' ? CLOSED : await closeAtBank(bankOf, stored)
  if (result.kind !== 'closed') {
    if (result.refusal === 'access') throw accessDenied(result.cause)
    const text = 'The bank did not close the account; repeat the request'
    throw new Fault('bank_unavailable', text, { retryAfterSeconds: 5, cause: result.cause })
  }
  const occurredAtMs = clock.now()
  const eventId = newId('evt', occurredAtMs)
  const payload = encodeAccountEvent('ACCOUNT_CLOSED', account, eventId, occurredAtMs)
  // False if another call has closed the account in the meantime; that call appended the event.
  const closed = await semaphore(() =>
    inTransaction(durablePool, async (client) => {
      const event = { eventId, occurredAtMs, payload }
      if (!(await closeOpen(client, account.id, event, occurredAtMs + LISTED_MS))) return false
      const { accountNumber, bank } = account
      await appendAudit(client, actor, {
        action: 'account.close',
        targetId: account.id,
        businessId: account.businessId,
        details: { reference: account.reference, bank, accountNumber },
      })
      return true
    }),
  )
  if (closed) onCommit()
  return account
}

/**
 * Closes an account at its bank, if the connector that opened it still serves the bank and supports closing. A real bank
 * is never asked to close an account of the sandbox, whose number may belong to a stranger.
 */
async function closeAtBank(bankOf: BankOf, account: OpenedAccount): Promise<Closing> {
  const served = bankOf(account)
  if (served?.name !== account.connector) return { kind: 'closed' }
  const { closeAccount: close } = served.connector
  if (close === undefined) return { kind: 'closed' }
  const { reference, accountNumber, bankAccountId } = account
  const signal = AbortSignal.timeout(served.callTimeoutMs)
  return close({ reference, accountNumber, bankAccountId }, signal)
}

/** The most accounts that one transaction ends. */
const ENDED_MAX = 100

/** The most accounts that one turn closes at their banks, all at once. */
const CLOSED_MAX = 8

/** How long a claim lasts: longer than a bank may take. */
const CLAIM_MS = 30_000

/** The first wait after a bank did not close an account. Each later wait is as long as the time since the account ended. */
const RETRY_MIN_MS = 30_000

/**
 * How long the job tries to close an ended account at its bank. Reconciliation lists the payments of ended and closed accounts
 * for as long, because banks report some payments late.
 */
const LISTED_MS = 3 * DAY_MS

const IDLE_MS = 1_000

/**
 * Ends one-time accounts that have expired or are used up, then closes them at their banks. An account ends here
 * whether or not its bank can be reached, since the business waits for the event.
 */
export function createEndAccounts(runtime: Runtime, dependencies: Dependencies): Loop {
  return createLoop({
    name: 'one-time accounts',
    log: runtime.log,
    async turn() {
      const ended = await endDueAccounts(runtime)
      const closed = await closeEndedAccounts(runtime, dependencies)
      return ended === ENDED_MAX || closed === CLOSED_MAX ? 0 : IDLE_MS
    },
  })
}

/** @returns how many accounts ended */
async function endDueAccounts({
  database: { durablePool },
  clock,
  safeClock,
  log,
  onCommit,
}: Runtime): Promise<number> {
  const nowMs = clock.now()
  const expiredMs = safeClock.now()
  const ended = await inTransaction(durablePool, async (client) => {
    const accounts = await lockEnding(client, { nowMs, expiredMs, limit: ENDED_MAX })
    const events = accounts.map((account) => {
      const eventId = newId('evt', nowMs)
      return {
        accountId: account.id,
        eventId,
        payload: encodeAccountEvent('ACCOUNT_EXPIRED', toEnded(account, nowMs), eventId, nowMs),
      }
    })
    if (events.length > 0) await endAccounts(client, events, nowMs)
    return events.length
  })
  if (ended > 0) afterCommit(log, onCommit)
  return ended
}

/** Without the fields that only a pending account has. */
function toEnded(account: OpenAccount, nowMs: number): OpenAccount {
  const terms = account.terms && { ...account.terms, endedAtMs: nowMs }
  return { ...account, status: 'EXPIRED', terms }
}

/** @returns how many accounts were due */
async function closeEndedAccounts(runtime: Runtime, dependencies: Dependencies): Promise<number> {
  const { clock, safeClock } = runtime
  const { durablePool } = runtime.database
  const nowMs = safeClock.now()
  const accounts = await claimEnded(durablePool, nowMs, clock.now() + CLAIM_MS, CLOSED_MAX)
  await Promise.all(accounts.map((account) => closeEnded(runtime, dependencies, account, nowMs)))
  return accounts.length
}

async function closeEnded(
  { database: { durablePool }, log }: Runtime,
  { bankOf }: Dependencies,
  { account, dueAtMs }: ClaimedAccount,
  nowMs: number,
): Promise<void> {
  const { id, bank, reference } = account
  // An account that was closed before it ended is closed at its bank already, and is listed no longer.
  const endedAtMs = account.terms?.endedAtMs ?? 0
  const listedUntilMs = endedAtMs + LISTED_MS
  // One that has waited for so long is tried once.
  if (dueAtMs >= listedUntilMs) return storeEndDue(durablePool, id, undefined)
  const result = await closeAtBank(bankOf, account)
  if (result.kind === 'closed') return storeEndDue(durablePool, id, listedUntilMs)
  const { cause } = result
  const retryAtMs = nowMs + Math.max(RETRY_MIN_MS, nowMs - endedAtMs)
  const line = { bank, reference, cause, retryAt: new Date(retryAtMs).toISOString() }
  if (retryAtMs < listedUntilMs) log.info(line, 'the bank did not close an expired account yet')
  else log.warn({ bank, reference, cause }, 'the bank did not close an expired account')
  return storeEndDue(durablePool, id, Math.min(retryAtMs, listedUntilMs))
}

/**
 * Locks ACTIVE accounts that are to end; each instance locks different accounts.
 *
 * @param times nowMs: used-up accounts end by this time; expiredMs: the others do, because an early end cannot be undone
 */
async function lockEnding(
  client: PoolClient,
  times: { readonly nowMs: number; readonly expiredMs: number; readonly limit: number },
): Promise<readonly OpenedAccount[]> {
  const { rows } = await client.query<AccountRow>({
    name: 'account-lock-ending',
    text: `select ${ACCOUNT_COLUMNS} from account where end_due_at <= $1 and status = 'ACTIVE'
        and (end_due_at <= $2 or used_at is not null)
      order by end_due_at limit $3 for no key update skip locked`,
    values: [new Date(times.nowMs), new Date(times.expiredMs), times.limit],
  })
  return rows.map((row) => toStored(row) as OpenedAccount)
}

/** Ends locked accounts and appends their events. Accounts at real banks become due at once, to be closed there. */
export async function endAccounts(
  client: PoolClient,
  events: readonly {
    readonly accountId: string
    readonly eventId: string
    readonly payload: Uint8Array
  }[],
  nowMs: number,
): Promise<void> {
  await client.query({
    name: 'account-end',
    text: `with input as (
        select * from unnest($1::text[], $2::text[], $3::bytea[]) as i(id, event_id, payload)
      ), ended as (
        update account a set status = 'EXPIRED', ended_at = $4,
          end_due_at = case when connector = 'live' then $4::timestamptz end
        from input i where a.id = i.id
        returning a.business_id, a.live, a.ended_at, i.event_id, i.payload
      )
      insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
      select event_id, business_id, live, 'ACCOUNT_EXPIRED', ended_at, payload from ended`,
    values: [
      textArray(events.map(({ accountId }) => accountId)),
      textArray(events.map(({ eventId }) => eventId)),
      byteaArray(events.map(({ payload }) => payload)),
      new Date(nowMs),
    ],
  })
}

/** Claims due ended accounts until a time: to close them at their banks, or to stop listing their payments. */
export async function claimEnded(
  pool: Pool,
  nowMs: number,
  untilMs: number,
  limit: number,
): Promise<readonly ClaimedAccount[]> {
  const { rows } = await pool.query<AccountRow & { readonly claimed_due_at_ms: number }>({
    name: 'account-claim-ended',
    text: `with due as (
        select id as due_id, end_due_at as due_at from account
        where end_due_at <= $1 and status in ('EXPIRED', 'CLOSED')
        order by end_due_at limit $3 for no key update skip locked
      )
      update account set end_due_at = $2 from due where id = due_id
      returning ${ACCOUNT_COLUMNS}, round(date_part('epoch', due_at) * 1000) as claimed_due_at_ms`,
    values: [new Date(nowMs), new Date(untilMs), limit],
  })
  return rows.map((row) => ({
    account: toStored(row) as OpenedAccount,
    dueAtMs: row.claimed_due_at_ms,
  }))
}

interface ClaimedAccount {
  readonly account: OpenedAccount
  /** When the account was due before the claim, in milliseconds since the Unix epoch. */
  readonly dueAtMs: number
}

/** Stores when a claimed account is due again. @param dueAtMs undefined: never */
async function storeEndDue(pool: Pool, id: string, dueAtMs: number | undefined): Promise<void> {
  await pool.query({
    name: 'account-end-due',
    text: "update account set end_due_at = $2 where id = $1 and status in ('EXPIRED', 'CLOSED')",
    values: [id, dueAtMs === undefined ? null : new Date(dueAtMs)],
  })
}
