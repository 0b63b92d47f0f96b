import { setTimeout as wait } from 'node:timers/promises'
import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { AccountResult, ConnectorName, IdKind } from '../banks/bank.ts'
import { plainText } from '../banks/bank-fields.ts'
import { newId } from '../core/ids.ts'
import { createBatcher } from '../postgres/batcher.ts'
import { byteaArray, textArray, timestampArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { RowOf } from '../postgres/statement.ts'
import { AccountEntity } from './account.entity.ts'
import {
  isOpened,
  type OpenAccount,
  type OpeningState,
  type PendingOpening,
  type RequestedAccount,
  type StoredAccount,
} from './account.ts'
import { encodeAccountEvent } from './message.ts'
import { ACCOUNT_COLUMNS, type AccountRow, findById, toStored } from './store.ts'

/** An account as the bank opened it, and its event. */
interface Opening {
  readonly id: string
  readonly accountNumber: string
  readonly accountName: string
  readonly bankAccountId: string
  readonly eventId: string
  readonly occurredAtMs: number
  readonly payload: Uint8Array
}

/** One call's exclusive right to ask the bank for a PENDING account. */
interface Claim {
  readonly attempt: number
  /** The state before the claim; `CREATING` if the process of the previous claim died. */
  readonly priorState: OpeningState
}

/**
 * Claims a PENDING account that no other call has claimed and that is not in manual review.
 *
 * @returns undefined if another call holds the claim, or the account is not pending or in review
 */
export async function claimPending(
  pool: Pool,
  id: string,
  nowMs: number,
  untilMs: number,
): Promise<Claim | undefined> {
  const result = await pool.query<{ attempts: number; prior_state: OpeningState }>({
    name: 'account-claim',
    text: `with unclaimed as (
        select id as unclaimed_id, opening_state as prior_state from account
        where id = $1 and status = 'PENDING' and claimed_until <= $2
          and opening_state <> 'MANUAL_REVIEW'
        for update
      )
      update account set claimed_until = $3, next_try_at = $3, attempts = attempts + 1,
        opening_state = 'CREATING'
      from unclaimed where id = unclaimed_id returning attempts, prior_state`,
    values: [id, new Date(nowMs), new Date(untilMs)],
  })
  const row = result.rows[0]
  return row && { attempt: row.attempts, priorState: row.prior_state }
}

/** A claimed account that is due, with the identity number that the bank may require. */
export interface DueOpening extends Claim {
  readonly account: StoredAccount
  readonly idType: IdKind | undefined
  readonly idNumberEncrypted: Uint8Array | undefined
}

/** Claims PENDING accounts that are due; each instance claims different accounts. */
export async function claimDue(
  pool: Pool,
  nowMs: number,
  untilMs: number,
  limit: number,
): Promise<readonly DueOpening[]> {
  const result = await pool.query<
    AccountRow &
      Pick<RowOf<typeof AccountEntity>, 'id_type' | 'id_number_encrypted'> & {
        prior_state: OpeningState
      }
  >({
    name: 'account-claim-due',
    text: `with due as (
        select id as due_id, opening_state as prior_state from account
        where status = 'PENDING' and next_try_at <= $1 and claimed_until <= $1
        order by next_try_at limit $3 for update skip locked
      )
      update account set claimed_until = $2, next_try_at = $2, attempts = attempts + 1,
        opening_state = 'CREATING'
      from due where id = due_id
      returning ${ACCOUNT_COLUMNS}, prior_state, id_type, id_number_encrypted`,
    values: [new Date(nowMs), new Date(untilMs), limit],
  })
  return result.rows.map((row) => ({
    account: toStored(row),
    attempt: row.attempts,
    priorState: row.prior_state,
    idType: row.id_type ?? undefined,
    idNumberEncrypted: row.id_number_encrypted ?? undefined,
  }))
}

/** Stores why an attempt did not open the account, unless a later attempt has begun. */
export async function updatePending(
  em: EntityManager,
  id: string,
  attempt: number,
  { state, cause, nextTryAtMs }: PendingOpening,
  nowMs: number,
): Promise<void> {
  await em.nativeUpdate(
    AccountEntity,
    { id, attempts: attempt, status: 'PENDING' },
    {
      openingState: state,
      lastCause: cause,
      nextTryAt: nextTryAtMs === undefined ? null : new Date(nextTryAtMs),
      claimedUntil: new Date(nowMs),
    },
  )
}

/**
 * Stores that the first attempt did not ask the bank, unless a later attempt has begun. Otherwise it would seem that the process had
 * died while it asked the bank.
 */
export async function releaseUnasked(
  pool: Pool,
  ids: readonly string[],
  nowMs: number,
): Promise<void> {
  await pool.query(
    `update account set opening_state = 'RETRYABLE', claimed_until = $2, next_try_at = null,
        last_cause = 'the database did not respond in time, so the bank was not asked'
      where id = any ($1::text[]) and status = 'PENDING' and attempts = 1 and opening_state = 'CREATING'`,
    [textArray(ids), new Date(nowMs)],
  )
}

/**
 * Stores that an attempt asks another connector than the previous attempt.
 *
 * @returns false if a later attempt has begun
 */
export async function switchConnector(
  em: EntityManager,
  id: string,
  attempt: number,
  connector: ConnectorName,
): Promise<boolean> {
  const claimed = { id, attempts: attempt, status: 'PENDING' } as const
  return (await em.nativeUpdate(AccountEntity, claimed, { connector })) === 1
}

/** Deletes an account that the bank rejected, unless a later attempt has begun. */
export async function deletePending(em: EntityManager, id: string, attempt: number): Promise<void> {
  await em.nativeDelete(AccountEntity, { id, attempts: attempt, status: 'PENDING' })
}

/**
 * Deletes a PENDING account that no call has claimed.
 *
 * @returns whether the account was deleted
 */
export async function deleteUnclaimed(
  em: EntityManager,
  id: string,
  nowMs: number,
): Promise<boolean> {
  const unclaimed = { id, status: 'PENDING', claimedUntil: { $lte: new Date(nowMs) } } as const
  return (await em.nativeDelete(AccountEntity, unclaimed)) === 1
}

/**
 * Makes PENDING accounts ACTIVE and appends their events, in one commit.
 *
 * @param unclaimedAtMs only accounts whose claim had expired at this time; undefined: all
 * @returns the ids of the accounts that are now ACTIVE
 * @throws a unique violation of `account_account_number_bank_live_unique`, for the whole batch
 */
export async function openPending(
  pool: Queryable,
  openings: readonly Opening[],
  unclaimedAtMs?: number,
): Promise<ReadonlySet<string>> {
  const result = await pool.query<{ id: string }>({
    name: 'account-open',
    text: `with input as (
        select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
          $6::timestamptz[], $7::bytea[])
          as i(id, account_number, account_name, bank_account_id, event_id, occurred_at, payload)
      ), opened as (
        update account a set status = 'ACTIVE', account_number = i.account_number,
          account_name = i.account_name, bank_account_id = i.bank_account_id, last_cause = '',
          next_try_at = null, end_due_at = a.expires_at
        from input i where a.id = i.id and a.status = 'PENDING'
          and ($8::timestamptz is null or a.claimed_until <= $8)
        returning a.id, a.business_id, a.live
      ), appended as (
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
        select event_id, business_id, live, 'ACCOUNT_CREATED', occurred_at, payload
        from input join opened using (id)
      )
      select id from opened`,
    values: [
      textArray(openings.map((opening) => opening.id)),
      textArray(openings.map((opening) => opening.accountNumber)),
      textArray(openings.map((opening) => opening.accountName)),
      textArray(openings.map((opening) => opening.bankAccountId)),
      textArray(openings.map((opening) => opening.eventId)),
      timestampArray(openings.map((opening) => opening.occurredAtMs)),
      byteaArray(openings.map((opening) => opening.payload)),
      unclaimedAtMs === undefined ? null : new Date(unclaimedAtMs),
    ],
  })
  return new Set(result.rows.map((row) => row.id))
}

/**
 * Closes an account and appends its event, in one commit.
 *
 * @param listedUntilMs until when reconciliation lists it, if a real bank has it. An expired account has such a time already.
 * @returns whether it was open
 */
export async function closeOpen(
  pool: Queryable,
  id: string,
  event: Pick<Opening, 'eventId' | 'occurredAtMs' | 'payload'>,
  listedUntilMs: number,
): Promise<boolean> {
  const result = await pool.query({
    name: 'account-close',
    text: `with closed as (
        update account set status = 'CLOSED',
          end_due_at = case when status = 'EXPIRED' then end_due_at
            when connector = 'live' then $5::timestamptz end
        where id = $1 and status in ('ACTIVE', 'EXPIRED')
        returning business_id, live
      ), appended as (
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
        select $2, business_id, live, 'ACCOUNT_CLOSED', $3, $4 from closed
      )
      select from closed`,
    values: [
      id,
      event.eventId,
      new Date(event.occurredAtMs),
      event.payload,
      new Date(listedUntilMs),
    ],
  })
  return result.rowCount === 1
}

/** Delays before storing an opened account is retried; together shorter than the claim. */
const RETRY_DELAYS_MS = [100, 400, 1_600]

const TEXT_CHARACTERS_MAX = 200

/** The result of storing an account that a bank has opened. */
type Stored =
  | { readonly kind: 'opened'; readonly account: OpenAccount }
  /** The number belongs to another account. */
  | { readonly kind: 'taken' }

type StoreOpening = (
  account: RequestedAccount,
  result: Extract<AccountResult, { kind: 'opened' }>,
) => Promise<Stored>

type SaveResult = 'opened' | 'not pending' | 'taken'

/** Openings that arrive while a batch is being stored share the next statement. */
export function createStoreOpening(runtime: Runtime): StoreOpening {
  const { clock, log, onCommit } = runtime
  const { durablePool } = runtime.database
  const save = createBatcher<Opening, SaveResult>({
    run: async (openings) => {
      const results = await saveOpenings(durablePool, openings)
      onCommit()
      return results
    },
    itemsMax: 64,
    batchesMax: 2,
    queueMax: 10_000,
  })
  return async (requested, result) => {
    const accountName = plainText(result.accountName, TEXT_CHARACTERS_MAX)
    const account = openAccount(requested, result.accountNumber, accountName)
    const opening = newOpening(account, result.bankAccountId, clock.now())
    const { bank, reference, accountNumber } = account
    const saved = await withRetries(() => save(opening)).catch((error: unknown) => {
      // An operator can resolve the account with the values in this log line.
      const text = 'a bank opened an account that could not be stored'
      log.error({ err: error, bank, reference, accountNumber }, text)
      throw error
    })
    if (saved === 'opened') {
      const { id, businessId, live } = account
      log.info({ account: id, business_id: businessId, live, bank, reference }, 'account opened')
      return { kind: 'opened', account }
    }
    if (saved === 'taken') return { kind: 'taken' }
    const stored = await findById(durablePool, account.id)
    if (stored && isOpened(stored) && stored.accountNumber === accountNumber) {
      return { kind: 'opened', account: stored }
    }
    // This call outlived its claim: another call has asked the bank in the meantime and got another result.
    log.error({ bank, reference, accountNumber }, 'a bank opened a second account for a reference')
    throw new Error(
      `${reference} was resolved by another call, but the bank opened ${accountNumber}`,
    )
  }
}

/** The ACTIVE account. */
export function openAccount(
  requested: RequestedAccount,
  accountNumber: string,
  accountName: string,
): OpenAccount {
  return { ...requested, accountNumber, accountName, status: 'ACTIVE', importedAtMs: undefined }
}

/** @param bankAccountId as the bank returned it */
export function newOpening(account: OpenAccount, bankAccountId: string, nowMs: number): Opening {
  const eventId = newId('evt', nowMs)
  return {
    id: account.id,
    accountNumber: account.accountNumber,
    accountName: account.accountName,
    bankAccountId: plainText(bankAccountId, TEXT_CHARACTERS_MAX),
    eventId,
    occurredAtMs: nowMs,
    payload: encodeAccountEvent('ACCOUNT_CREATED', account, eventId, nowMs),
  }
}

/** Stores a batch of openings, or each by itself if a number is taken, so that the others do not fail with it. */
async function saveOpenings(pool: Pool, openings: readonly Opening[]): Promise<SaveResult[]> {
  try {
    const opened = await openPending(pool, openings)
    return openings.map(({ id }) => (opened.has(id) ? 'opened' : 'not pending'))
  } catch (error) {
    if (!isNumberTaken(error)) throw error
    if (openings.length === 1) return ['taken']
    const results: SaveResult[] = []
    for (const opening of openings) results.push(...(await saveOpenings(pool, [opening])))
    return results
  }
}

/** Whether a statement failed because the account number belongs to another account. */
export function isNumberTaken(error: unknown): boolean {
  const { code, constraint } = error as { readonly code?: string; readonly constraint?: string }
  return code === '23505' && constraint === 'account_account_number_bank_live_unique'
}

/** Retries, because the database may be briefly unavailable, and the bank does not repeat its response. */
async function withRetries<T>(operation: () => Promise<T>): Promise<T> {
  for (const delayMs of RETRY_DELAYS_MS) {
    try {
      return await operation()
    } catch {
      await wait(delayMs)
    }
  }
  return operation()
}
