import type { EntityManager } from '@mikro-orm/postgresql'
import type { BankCode } from '../banks/bank.ts'
import { NotificationEntity } from './notification.entity.ts'

/** How many notifications are in manual review. */
export function countInReview(em: EntityManager): Promise<number> {
  return em.count(NotificationEntity, { state: 'MANUAL_REVIEW' })
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
