import { ReviewKind } from '../../../gen/inflow/overview/v1/review_pb.ts'

/** What an item is, for one and for several. */
export const REVIEW_KINDS: Readonly<Record<number, readonly [one: string, many: string]>> = {
  [ReviewKind.UNMATCHED_PAYMENT]: ['unmatched payment', 'unmatched'],
  [ReviewKind.HELD_NOTIFICATION]: ['held notification', 'held notifications'],
  [ReviewKind.PAYMENT_CONFLICT]: ['conflict', 'conflicts'],
  [ReviewKind.ACCOUNT_OPENING]: ['account opening', 'openings'],
  [ReviewKind.HELD_PAYMENT]: ['held payment', 'held payments'],
  [ReviewKind.ENDPOINT]: ['failing endpoint', 'failing endpoints'],
  [ReviewKind.SETTLEMENT]: ['late settlement', 'late settlements'],
}
