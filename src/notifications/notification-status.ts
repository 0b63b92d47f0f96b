import type { EntityManager } from '@mikro-orm/postgresql'
import type { BankCode } from '../banks/bank.ts'
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
