import type { Pool } from 'pg'
import { appendEvents } from '../events/append-events.ts'
import { byteaArray, textArray, timestampArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { StoredAccount } from './account.ts'
import type { OpeningState, Unopened } from './opening.ts'
import { ACCOUNT_COLUMNS, type AccountRow, toStored } from './store.ts'

/** What the bank gave, and the event that tells of it. */
export interface Opening {
  readonly id: string
  readonly accountNumber: string
  readonly accountName: string
  readonly bankAccountId: string
  readonly eventId: string
  readonly occurredAtMs: number
  readonly payload: Uint8Array
}

/** A pending account that one call has to itself. */
interface Claim {
  readonly attempt: number
  /** What was known before; `ASKING` when whoever was at it died. */
  readonly before: OpeningState
}

/**
 * Takes a pending account over when nobody is at the bank for it, and no person has to be.
 *
 * @returns undefined when another call is at it, or it is pending no more, or a person's
 */
export async function claimPending(
  pool: Pool,
  id: string,
  nowMs: number,
  untilMs: number,
): Promise<Claim | undefined> {
  const result = await pool.query<{ attempts: number; state_before: OpeningState }>({
    name: 'account-claim',
    text: `with free as (
        select id as free_id, opening_state as state_before from account
        where id = $1 and status = 'PENDING' and claimed_until <= $2 and opening_state <> 'PERSON'
        for update
      )
      update account set claimed_until = $3, next_try_at = $3, attempts = attempts + 1,
        opening_state = 'ASKING'
      from free where id = free_id returning attempts, state_before`,
    values: [id, new Date(nowMs), new Date(untilMs)],
  })
  const row = result.rows[0]
  return row && { attempt: row.attempts, before: row.state_before }
}

/** A pending account that was taken over, with what its order needs. */
export interface DueOpening extends Claim {
  readonly account: StoredAccount
  readonly idType: 'nin' | 'bvn' | undefined
  readonly idNumberEncrypted: Uint8Array | undefined
}

/** Takes over pending accounts that are due; each instance gets others. */
export async function claimDue(
  pool: Pool,
  nowMs: number,
  untilMs: number,
  limit: number,
): Promise<readonly DueOpening[]> {
  const result = await pool.query<
    AccountRow & {
      state_before: OpeningState
      id_type: 'nin' | 'bvn' | null
      id_number_encrypted: Buffer | null
    }
  >({
    name: 'account-claim-due',
    text: `with due as (
        select id as due_id, opening_state as state_before from account
        where status = 'PENDING' and next_try_at <= $1 and claimed_until <= $1
        order by next_try_at limit $3 for update skip locked
      )
      update account set claimed_until = $2, next_try_at = $2, attempts = attempts + 1,
        opening_state = 'ASKING'
      from due where id = due_id
      returning ${ACCOUNT_COLUMNS}, state_before, id_type, id_number_encrypted`,
    values: [new Date(nowMs), new Date(untilMs), limit],
  })
  return result.rows.map((row) => ({
    account: toStored(row),
    attempt: row.attempts,
    before: row.state_before,
    idType: row.id_type ?? undefined,
    idNumberEncrypted: row.id_number_encrypted ?? undefined,
  }))
}

/** Writes down why an attempt opened nothing, unless a later one has begun. */
export async function keepUnopened(
  pool: Pool,
  id: string,
  attempt: number,
  { state, cause, nextTryAtMs }: Unopened,
  nowMs: number,
): Promise<void> {
  await pool.query({
    name: 'account-keep-unopened',
    text: `update account set opening_state = $3, last_cause = $4, next_try_at = $5,
        claimed_until = $6
      where id = $1 and attempts = $2 and status = 'PENDING'`,
    values: [
      id,
      attempt,
      state,
      cause,
      nextTryAtMs === undefined ? null : new Date(nextTryAtMs),
      new Date(nowMs),
    ],
  })
}

/** Forgets an account that the bank refused to open, unless a later attempt has begun. */
export async function deletePending(pool: Pool, id: string, attempt: number): Promise<void> {
  await pool.query({
    name: 'account-delete-pending',
    text: "delete from account where id = $1 and attempts = $2 and status = 'PENDING'",
    values: [id, attempt],
  })
}

/**
 * Forgets a pending account that nobody is at the bank for.
 *
 * @returns whether there was one
 */
export async function deleteUnclaimed(
  pool: Queryable,
  id: string,
  nowMs: number,
): Promise<boolean> {
  const result = await pool.query({
    name: 'account-delete-unclaimed',
    text: "delete from account where id = $1 and status = 'PENDING' and claimed_until <= $2",
    values: [id, new Date(nowMs)],
  })
  return result.rowCount === 1
}

const CREATED_EVENT = { kind: "'ACCOUNT_CREATED'", occurred_at: 'occurred_at' }

const CLOSED_EVENT = {
  kind: "'ACCOUNT_CLOSED'",
  event_id: '$2',
  occurred_at: '$3',
  payload: '$4',
}

/**
 * Opens pending accounts and tells of it, in one commit.
 *
 * @param claimedMs only those whose claim was over at that time; undefined: whoever has them
 * @returns the ids that were opened
 * @throws a unique violation of `account_account_number_bank_live_unique`, for all of them
 */
export async function openPending(
  pool: Queryable,
  openings: readonly Opening[],
  claimedMs?: number,
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
          next_try_at = null
        from input i where a.id = i.id and a.status = 'PENDING'
          and ($8::timestamptz is null or a.claimed_until <= $8)
        returning a.id, a.business_id, a.live
      ), published as (
        ${appendEvents(CREATED_EVENT, 'from input join opened using (id)')}
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
      claimedMs === undefined ? null : new Date(claimedMs),
    ],
  })
  return new Set(result.rows.map((row) => row.id))
}

/** Closes an open account and tells of it, in one commit. @returns whether it was open */
export async function closeActive(
  pool: Queryable,
  id: string,
  event: Pick<Opening, 'eventId' | 'occurredAtMs' | 'payload'>,
): Promise<boolean> {
  const result = await pool.query({
    name: 'account-close',
    text: `with closed as (
        update account set status = 'CLOSED' where id = $1 and status = 'ACTIVE'
        returning business_id, live
      ), published as (
        ${appendEvents(CLOSED_EVENT, 'from closed')}
      )
      select from closed`,
    values: [id, event.eventId, new Date(event.occurredAtMs), event.payload],
  })
  return result.rowCount === 1
}
