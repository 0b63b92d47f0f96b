import { type PayoutPosting, type PayoutStatus, postingsOf } from '../../src/payouts/payout.ts'

/** A shortest way to each status. */
export const WAYS: Readonly<Record<PayoutStatus, readonly PayoutStatus[]>> = {
  PENDING_APPROVAL: ['PENDING_APPROVAL'],
  APPROVED: ['APPROVED'],
  SUBMITTING: ['APPROVED', 'SUBMITTING'],
  UNKNOWN: ['APPROVED', 'SUBMITTING', 'UNKNOWN'],
  MANUAL_REVIEW: ['APPROVED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW'],
  PAID: ['APPROVED', 'SUBMITTING', 'PAID'],
  FAILED: ['APPROVED', 'SUBMITTING', 'FAILED'],
  REJECTED: ['PENDING_APPROVAL', 'REJECTED'],
  CANCELLED: ['PENDING_APPROVAL', 'CANCELLED'],
  EXPIRED: ['PENDING_APPROVAL', 'EXPIRED'],
  RETURNED: ['APPROVED', 'SUBMITTING', 'PAID', 'RETURNED'],
}
export const STATUSES = Object.keys(WAYS) as PayoutStatus[]

export type Money = Parameters<typeof postingsOf>[0]

/** The postings of a payout that went through some statuses. */
export const postingsOfWay = (payout: Money, way: readonly PayoutStatus[]): PayoutPosting[] =>
  way.flatMap((status, index) => postingsOf(payout, status, { isNew: index === 0 }))
