import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { BankCode, NotificationOutcome } from '../banks/bank.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import type { NotificationEntity, NotificationState } from './notification.entity.ts'

/** A notification to be stored. */
export interface NewNotification {
  readonly id: string
  readonly bank: BankCode
  /** SHA-256 of the body. */
  readonly bodyDigest: Buffer
  readonly receivedAtMs: number
  readonly rawEncrypted: Buffer
  readonly bankKey: string
  /** When the service retries it if this process dies. */
  readonly nextTryAtMs: number
}

/** The state of a notification received before. */
export interface StoredNotification {
  readonly id: string
  readonly state: NotificationState
  readonly outcome: NotificationOutcome
  readonly tries: number
}

/** Stores a notification as pending. @returns the one stored for this body; a new one has no tries */
export async function storeNotification(
  pool: Pool,
  row: NewNotification,
): Promise<StoredNotification> {
  const inserted = await pool.query<{ id: string }>({
    name: 'notification-store',
    text: `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key,
        state, outcome, cause, tries, next_try_at)
      values ($1, $2, $3, $4, $5, $6, 'PENDING', 'RETRY', '', 0, $7)
      on conflict (bank, body_digest) do nothing returning id`,
    values: [
      row.id,
      row.bank,
      row.bodyDigest,
      new Date(row.receivedAtMs),
      row.rawEncrypted,
      row.bankKey,
      new Date(row.nextTryAtMs),
    ],
  })
  if (inserted.rows.length === 1) {
    return { id: row.id, state: 'PENDING', outcome: 'RETRY', tries: 0 }
  }
  const found = await pool.query<StoredNotification>({
    name: 'notification-find-body',
    text: `select id, state, outcome, tries from bank_notification
      where bank = $1 and body_digest = $2`,
    values: [row.bank, row.bodyDigest],
  })
  // Only the retention can have deleted it between the two statements.
  return found.rows[0] ?? { id: row.id, state: 'PENDING', outcome: 'RETRY', tries: 0 }
}

/** The result of processing a notification. */
export interface Processed {
  readonly state: NotificationState
  readonly outcome: NotificationOutcome
  readonly cause: string
  /** Undefined unless the state is PENDING. */
  readonly nextTryAtMs: number | undefined
}

/** Stores the result of processing a notification, unless it is already processed. */
export async function finishProcessing(
  pool: Pool,
  id: string,
  processed: Processed,
): Promise<void> {
  const { state, outcome, cause, nextTryAtMs } = processed
  await pool.query({
    name: 'notification-finish',
    text: `update bank_notification set state = $2, outcome = $3, cause = $4, next_try_at = $5,
        tries = tries + 1
      where id = $1 and (state <> 'PROCESSED' or outcome = 'UNCONFIRMED')`,
    values: [id, state, outcome, cause, nextTryAtMs === undefined ? null : new Date(nextTryAtMs)],
  })
}

/** A stored notification that is due for a retry. */
export interface DueNotification extends StoredNotification {
  readonly bank: BankCode
  readonly receivedAtMs: number
  readonly rawEncrypted: Buffer
}

/** Claims due pending notifications until `untilMs`; concurrent instances claim different ones. */
export async function claimDueNotifications(
  pool: Pool,
  banks: readonly BankCode[],
  nowMs: number,
  untilMs: number,
  limit: number,
): Promise<DueNotification[]> {
  const result = await pool.query<
    StoredNotification & { bank: BankCode; received_at_ms: number; raw_encrypted: Buffer }
  >({
    name: 'notification-claim-due',
    text: `with due as (
        select id as due_id from bank_notification
        where state = 'PENDING' and next_try_at <= $2 and bank = any($1)
        order by next_try_at limit $4 for update skip locked
      )
      update bank_notification set next_try_at = $3 from due where id = due_id
      returning id, bank, state, outcome, tries, raw_encrypted,
        ${epochMs('received_at')} as received_at_ms`,
    values: [banks, new Date(nowMs), new Date(untilMs), limit],
  })
  return result.rows.map(({ received_at_ms, raw_encrypted, ...row }) => ({
    ...row,
    receivedAtMs: received_at_ms,
    rawEncrypted: raw_encrypted,
  }))
}

/**
 * Assigns the session id under which a bank's payment is recorded: the first one reported for it.
 *
 * @returns the session id; undefined if another payment of the bank has this one
 */
export async function assignSession(
  pool: Pool,
  bank: BankCode,
  key: { readonly bankKey: string; readonly sessionId: string },
  nowMs: number,
): Promise<string | undefined> {
  const result = await pool.query<{ session_id: string }>({
    name: 'payment-key-assign',
    text: `with assigned as (
        insert into bank_payment_key (bank, bank_key, session_id, created_at)
        values ($1, $2, $3, $4) on conflict do nothing returning session_id
      )
      select session_id from assigned
      union all select session_id from bank_payment_key where bank = $1 and bank_key = $2`,
    values: [bank, key.bankKey, key.sessionId, new Date(nowMs)],
  })
  if (result.rows[0]) return result.rows[0].session_id
  return findSession(pool, bank, key.bankKey)
}

/** The session id under which a bank's payment is recorded; undefined if it was not reported yet. */
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

/** Deletes processed notifications received before a time. @returns how many */
export async function deleteOldNotifications(
  em: EntityManager,
  beforeMs: number,
  limit: number,
): Promise<number> {
  const queries = queriesOf<typeof NotificationEntity>(em)
  const old = queries
    .selectFrom('bank_notification')
    .select('id')
    .where('receivedAt', '<', new Date(beforeMs))
    .where('state', '=', 'PROCESSED')
    .orderBy('receivedAt')
    .limit(limit)
  const { numDeletedRows } = await queries
    .deleteFrom('bank_notification')
    .where('id', 'in', old)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
