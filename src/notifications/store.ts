import type { Pool } from 'pg'
import type { BankCode, NotificationOutcome } from '../banks/bank.ts'
import { epochMs } from '../postgres/epoch-ms.ts'

/**
 * Where a kept notification stands.
 *
 *     OPEN ──▶ DONE   there is nothing more to do
 *       └────▶ HELD   a person has to look
 *
 * While it is open the service looks at it again by itself, and whenever the bank repeats it.
 */
export type NotificationState = 'OPEN' | 'DONE' | 'HELD'

/** A notification about to be kept. */
export interface NewNotification {
  readonly id: string
  readonly bank: BankCode
  /** SHA-256 of the body. */
  readonly bodyDigest: Buffer
  readonly receivedAtMs: number
  readonly sealed: Buffer
  readonly bankKey: string
  /** When the service looks at it again, should this process die over it. */
  readonly nextTryAtMs: number
}

/** What is known of a notification that came before. */
export interface KeptNotification {
  readonly id: string
  readonly state: NotificationState
  readonly outcome: NotificationOutcome
  readonly tries: number
}

/** Keeps a notification, open. @returns the one that is kept for this body; new ones have no tries */
export async function keepNotification(
  pool: Pool,
  row: NewNotification,
): Promise<KeptNotification> {
  const inserted = await pool.query<{ id: string }>({
    name: 'notification-keep',
    text: `insert into bank_notification (id, bank, body_digest, received_at, sealed, bank_key, state,
        outcome, cause, tries, next_try_at)
      values ($1, $2, $3, $4, $5, $6, 'OPEN', 'try again', '', 0, $7)
      on conflict (bank, body_digest) do nothing returning id`,
    values: [
      row.id,
      row.bank,
      row.bodyDigest,
      new Date(row.receivedAtMs),
      row.sealed,
      row.bankKey,
      new Date(row.nextTryAtMs),
    ],
  })
  if (inserted.rows.length === 1) {
    return { id: row.id, state: 'OPEN', outcome: 'try again', tries: 0 }
  }
  const found = await pool.query<KeptNotification>({
    name: 'notification-find-body',
    text: `select id, state, outcome, tries from bank_notification
      where bank = $1 and body_digest = $2`,
    values: [row.bank, row.bodyDigest],
  })
  // Between the two statements it can only have been deleted for its age.
  return found.rows[0] ?? { id: row.id, state: 'OPEN', outcome: 'try again', tries: 0 }
}

/** What a look at a notification came to. */
export interface Processed {
  readonly state: NotificationState
  readonly outcome: NotificationOutcome
  readonly cause: string
  /** With state OPEN alone. */
  readonly nextTryAtMs: number | undefined
}

/** Writes down what a look at a notification came to, unless it is settled already. */
export async function finishProcessing(pool: Pool, id: string, looked: Processed): Promise<void> {
  const { state, outcome, cause, nextTryAtMs } = looked
  await pool.query({
    name: 'notification-finish',
    text: `update bank_notification set state = $2, outcome = $3, cause = $4, next_try_at = $5,
        tries = tries + 1
      where id = $1 and (state <> 'DONE' or outcome = 'denied')`,
    values: [id, state, outcome, cause, nextTryAtMs === undefined ? null : new Date(nextTryAtMs)],
  })
}

/** A kept notification that is due to be looked at again. */
export interface DueNotification extends KeptNotification {
  readonly bank: BankCode
  readonly receivedAtMs: number
  readonly sealed: Buffer
}

/** Takes open notifications that are due; each instance gets others, for as long as `untilMs`. */
export async function claimDueNotifications(
  pool: Pool,
  banks: readonly BankCode[],
  nowMs: number,
  untilMs: number,
  limit: number,
): Promise<DueNotification[]> {
  const result = await pool.query<
    KeptNotification & { bank: BankCode; received_at_ms: number; sealed: Buffer }
  >({
    name: 'notification-claim-due',
    text: `with due as (
        select id as due_id from bank_notification
        where state = 'OPEN' and next_try_at <= $2 and bank = any($1)
        order by next_try_at limit $4 for update skip locked
      )
      update bank_notification set next_try_at = $3 from due where id = due_id
      returning id, bank, state, outcome, tries, sealed,
        ${epochMs('received_at')} as received_at_ms`,
    values: [banks, new Date(nowMs), new Date(untilMs), limit],
  })
  return result.rows.map(({ received_at_ms, ...row }) => ({ ...row, receivedAtMs: received_at_ms }))
}

/**
 * Fixes the session under which a bank's payment is recorded: the first one that it was told with.
 *
 * @returns the session; undefined when this session is that of another payment of the bank
 */
export async function assignSession(
  pool: Pool,
  bank: BankCode,
  key: { readonly bankKey: string; readonly sessionId: string },
  nowMs: number,
): Promise<string | undefined> {
  const result = await pool.query<{ session_id: string }>({
    name: 'payment-key-fix',
    text: `with fixed as (
        insert into bank_payment_key (bank, bank_key, session_id, created_at)
        values ($1, $2, $3, $4) on conflict do nothing returning session_id
      )
      select session_id from fixed
      union all select session_id from bank_payment_key where bank = $1 and bank_key = $2`,
    values: [bank, key.bankKey, key.sessionId, new Date(nowMs)],
  })
  if (result.rows[0]) return result.rows[0].session_id
  return findSession(pool, bank, key.bankKey)
}

/** The session under which a bank's payment is recorded, if it was told before. */
export async function findSession(
  pool: Pool,
  bank: BankCode,
  bankKey: string,
): Promise<string | undefined> {
  const result = await pool.query<{ session_id: string }>({
    name: 'payment-key-find',
    text: 'select session_id from bank_payment_key where bank = $1 and bank_key = $2',
    values: [bank, bankKey],
  })
  return result.rows[0]?.session_id
}

/** Deletes notifications that came before a time and need nobody. @returns how many */
export async function deleteOldNotifications(
  pool: Pool,
  beforeMs: number,
  limit: number,
): Promise<number> {
  const result = await pool.query({
    name: 'notification-delete-old',
    text: `delete from bank_notification where id in (
        select id from bank_notification where received_at < $1 and state = 'DONE'
        order by received_at limit $2)`,
    values: [new Date(beforeMs), limit],
  })
  return result.rowCount ?? 0
}
