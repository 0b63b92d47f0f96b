import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import { type AuditAction, appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { BANK_CODES, type BankCode } from '../banks/bank.ts'
import { Fault } from '../core/errors.ts'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { DEADLINES } from '../postgres/client.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { ShownNotification } from './message.ts'
import { NotificationEntity } from './notification.entity.ts'
import { decryptNotification } from './raw-notification.ts'

/** A notification in any state; undefined if there is none. */
export async function findNotification(
  em: EntityManager,
  id: string,
): Promise<ShownNotification | undefined> {
  const row = await em.findOne(NotificationEntity, { id })
  return row ? toShown(row) : undefined
}

/**
 * Decrypts a stored notification. The audit log records who viewed it.
 *
 * Faults: not_found.
 */
export async function showNotification(
  { database: { orm } }: Runtime,
  encrypter: Encrypter,
  id: string,
  actor: Actor,
) {
  return orm.em.fork().transactional(async (em) => {
    const row = await find(em, id)
    const { rawBody } = decryptNotification(encrypter, id, Buffer.from(row.rawEncrypted))
    await audit(em, actor, 'notification.show', row)
    return { notification: toShown(row), body: rawBody.toString('utf8') }
  })
}

/**
 * Makes a held notification due, so that any instance processes it again.
 *
 * Faults: not_found, not_held.
 */
export async function retryHeld(
  { database: { orm }, clock }: Runtime,
  id: string,
  actor: Actor,
): Promise<ShownNotification> {
  return orm.em.fork().transactional(async (em) => {
    const pending = {
      state: 'PENDING',
      outcome: 'RETRY',
      nextTryAt: new Date(clock.now()),
    } as const
    const held = { id, state: 'MANUAL_REVIEW' } as const
    const changed = await em.nativeUpdate(NotificationEntity, held, pending)
    const row = await find(em, id)
    if (changed === 0) throw notHeld(row)
    await audit(em, actor, 'notification.retry', row)
    return toShown(row)
  })
}

/**
 * Ends the manual review of a notification. Nothing is recorded.
 *
 * Faults: not_found, not_held.
 */
export async function resolveHeld(
  { database: { orm }, clock }: Runtime,
  { notificationId: id, note }: { readonly notificationId: string; readonly note: string },
  actor: Actor,
): Promise<ShownNotification> {
  return orm.em.fork().transactional(async (em) => {
    const resolved = { state: 'PROCESSED', resolvedAt: new Date(clock.now()), note } as const
    const held = { id, state: 'MANUAL_REVIEW' } as const
    const changed = await em.nativeUpdate(NotificationEntity, held, resolved)
    const row = await find(em, id)
    if (changed === 0 && row.resolvedAt === null) throw notHeld(row)
    if (changed === 1) await audit(em, actor, 'notification.resolve', row, { note })
    return toShown(row)
  })
}

type Row = Awaited<ReturnType<typeof find>>

async function find(em: EntityManager, id: string) {
  const row = await em.findOne(NotificationEntity, { id })
  if (row === null) throw new Fault('not_found', 'There is no such notification')
  return row
}

function audit(
  em: EntityManager,
  actor: Actor,
  action: AuditAction,
  { id, bank }: Row,
  details: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  return appendAudit(em, actor, { action, targetId: id, details: { bank, ...details } })
}

function notHeld({ state }: Row): Fault {
  const text = state === 'PENDING' ? 'it is pending' : 'it was processed'
  return new Fault('not_held', `The notification is not in manual review: ${text}`)
}

function toShown(row: Row): ShownNotification {
  return {
    id: row.id,
    bank: row.bank,
    receivedAtMs: row.receivedAt.getTime(),
    accountNumber: row.accountNumber,
    sessionId: row.sessionId,
    amountMinor: BigInt(row.amountMinor),
    state: row.state,
    outcome: row.outcome,
    cause: row.cause,
    tries: row.tries,
    resolvedAtMs: row.resolvedAt?.getTime(),
    note: row.note,
  }
}

/** A notification that waits for an operator. */
type WaitingNotification = Pick<
  ShownNotification,
  'id' | 'bank' | 'receivedAtMs' | 'accountNumber' | 'sessionId' | 'amountMinor' | 'cause'
>

/** The notifications in manual review, oldest first. @param after the last id of the previous page */
export async function listOldestHeld(
  on: Queryable,
  after: string,
  limit: number,
): Promise<readonly WaitingNotification[]> {
  const { rows } = await on.query<Omit<WaitingNotification, 'amountMinor'> & { amount: string }>(
    `select id, bank, round(date_part('epoch', received_at) * 1000) as "receivedAtMs", cause,
        account_number as "accountNumber", session_id as "sessionId", amount_minor as amount
      from bank_notification where state = 'MANUAL_REVIEW' and id > $1 order by id limit $2`,
    [after, limit],
  )
  return rows.map(({ amount, ...row }) => ({ ...row, amountMinor: BigInt(amount) }))
}

/** Counts the notifications in manual review, up to `max`. */
export async function countHeld(on: Queryable, max: number): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (
        select from bank_notification where state = 'MANUAL_REVIEW' order by id limit $1) held`,
    [max],
  )
  return rows[0]?.count ?? 0
}

/** Counts pending notifications that were due before a time: no instance on which their bank is live processes them. */
export function countOverdue(em: EntityManager, beforeMs: number): Promise<number> {
  const nextTryAt = { $lt: new Date(beforeMs) }
  return em.count(NotificationEntity, { state: 'PENDING', nextTryAt })
}

/** When a bank sent its latest stored notification; undefined if none is stored. */
export async function latestNotificationAt(
  em: EntityManager,
  bank: BankCode,
): Promise<Date | undefined> {
  const [latest] = await em.find(
    NotificationEntity,
    { bank, listed: false },
    { fields: ['receivedAt'], orderBy: { receivedAt: 'desc' }, limit: 1 },
  )
  return latest?.receivedAt
}

interface PendingOfBank {
  readonly bank: BankCode
  readonly count: number
  /** How long the oldest has been pending. */
  readonly oldestSeconds: number
}

/** The most notifications that are counted, in the order in which they are due. */
const ROWS_MAX = 10_000

/** Counts the notifications that are not processed yet, by bank: a bounded range of a partial index. */
async function readPending(pool: Pool): Promise<readonly PendingOfBank[]> {
  const { rows } = await pool.query<PendingOfBank>({
    name: 'bank-notification-read-pending',
    query_timeout: DEADLINES.hot,
    text: `select bank, count(*)::int as count,
        greatest(0, extract(epoch from clock_timestamp() - min(received_at)))::float8 as "oldestSeconds"
      from (select bank, received_at from bank_notification where state = 'PENDING'
        order by next_try_at limit $1) pending
      group by bank`,
    values: [ROWS_MAX],
  })
  return rows
}

/** Registers the notifications that banks have sent and that are not processed yet. */
export function registerPendingMetrics({ database: { durablePool }, metrics }: Runtime): void {
  const gauge = (name: string, help: string, measure: (of: PendingOfBank) => number) => ({
    name,
    help,
    labelNames: ['bank'],
    measure: (pending: readonly PendingOfBank[]) =>
      BANK_CODES.map((bank) => {
        const found = pending.find((each) => each.bank === bank)
        return { labels: { bank }, value: found === undefined ? 0 : measure(found) }
      }),
  })
  registerSampledGauges(metrics, () => readPending(durablePool), [
    gauge(
      'inflow_bank_notifications_pending',
      'Notifications of a bank that are not processed yet, because the bank has not confirmed them or processing failed: up to 10,000.',
      ({ count }) => count,
    ),
    gauge(
      'inflow_bank_oldest_pending_notification_seconds',
      'Age of the oldest notification of a bank that is not processed yet.',
      ({ oldestSeconds }) => oldestSeconds,
    ),
  ])
}
