import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { Registry } from 'prom-client'
import { BANK_CODES, type BankCode } from '../banks/bank.ts'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import { DEADLINES } from '../postgres/client.ts'
import { NotificationEntity } from './notification.entity.ts'

/** How many notifications are in manual review. */
export function countInReview(em: EntityManager): Promise<number> {
  return em.count(NotificationEntity, { state: 'MANUAL_REVIEW' })
}

/** How many pending notifications were due before a time: no instance with their bank live processes them. */
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
    { bank },
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

/** Those that are due first; more are not counted. */
const ROWS_MAX = 10_000

/** The notifications that are not processed yet, by bank: a range of a partial index, bounded. */
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
export function registerPendingMetrics(metrics: Registry, pool: Pool): void {
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
  registerSampledGauges(metrics, () => readPending(pool), [
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
