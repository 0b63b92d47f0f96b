import type { BankCode } from '../../banks/bank.ts'

/** The kinds of items, as the contract names them. Page tokens depend on their order. */
export const REVIEW_KINDS = [
  'UNMATCHED_PAYMENT',
  'HELD_NOTIFICATION',
  'PAYMENT_CONFLICT',
  'ACCOUNT_OPENING',
  'HELD_PAYMENT',
  'ENDPOINT',
  'SETTLEMENT',
] as const

export type ReviewKind = (typeof REVIEW_KINDS)[number]

/** The kinds that only operators see. */
export const OPERATOR_KINDS: ReadonlySet<ReviewKind> = new Set([
  'UNMATCHED_PAYMENT',
  'HELD_NOTIFICATION',
  'PAYMENT_CONFLICT',
  'SETTLEMENT',
])

/** What can end an item. */
export type ReviewAction =
  | 'assign'
  | 'return'
  | 'retry notification'
  | 'resolve notification'
  | 'resolve conflict'
  | 'resolve account'
  | 'accept payment'
  | 'return payment'
  | 'complete return'
  | 'update endpoint'
  | 'delete endpoint'
  | 'settle'

/** Something that waits for a decision. */
export interface ReviewItem {
  readonly kind: ReviewKind
  /** What the actions take. */
  readonly id: string
  /** Its place in the list of its kind: what a page token names. */
  readonly key: string
  readonly sinceMs: number
  readonly amountMinor?: bigint
  readonly businessId: string
  readonly bank?: BankCode
  readonly text: string
  readonly actions: readonly ReviewAction[]
  readonly live: boolean
  readonly accountNumber?: string
  readonly sessionId?: string
  readonly transactionId?: string
}
