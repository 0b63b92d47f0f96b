import {
  type ReviewCount,
  type ReviewItem,
  ReviewKind,
} from '../../../gen/inflow/overview/v1/review_pb.ts'
import { count as countOf } from '../format/money.ts'

interface NamedKind {
  readonly kind: ReviewKind
  readonly code: string
  /** The names of its tab, and of one item. */
  readonly tab: string
  readonly one: string
  /** In a sentence, of one and of several. */
  readonly inText: readonly [one: string, many: string]
}

const named = (
  kind: ReviewKind,
  code: string,
  tab: string,
  one: string,
  ...inText: readonly [string, string]
): NamedKind => ({ kind, code, tab, one, inText })

const { UNMATCHED_PAYMENT, HELD_NOTIFICATION, PAYMENT_CONFLICT, ACCOUNT_OPENING } = ReviewKind
const { HELD_PAYMENT, ENDPOINT, SETTLEMENT, PAYOUT_APPROVAL, PAYOUT, PAYOUT_DISCREPANCY } =
  ReviewKind

/** The kinds, in the order of their tabs. */
// biome-ignore format: a table
export const REVIEW_KINDS: readonly NamedKind[] = [
  named(UNMATCHED_PAYMENT, 'unmatched', 'Unmatched payments', 'Unmatched payment', 'unmatched payment', 'unmatched'),
  named(HELD_NOTIFICATION, 'notifications', 'Held notifications', 'Held notification', 'held notification', 'held notifications'),
  named(PAYMENT_CONFLICT, 'conflicts', 'Conflicts', 'Conflict', 'conflict', 'conflicts'),
  named(ACCOUNT_OPENING, 'openings', 'Openings', 'Opening', 'account opening', 'openings'),
  named(HELD_PAYMENT, 'held', 'Held payments', 'Held payment', 'held payment', 'held payments'),
  named(ENDPOINT, 'endpoints', 'Endpoints', 'Endpoint', 'failing endpoint', 'failing endpoints'),
  named(SETTLEMENT, 'settlements', 'Settlements', 'Settlement', 'late settlement', 'late settlements'),
  named(PAYOUT_APPROVAL, 'approvals', 'Approvals', 'Approval', 'payout to approve', 'payouts to approve'),
  named(PAYOUT, 'payouts', 'Unclear payouts', 'Unclear payout', 'unclear payout', 'unclear payouts'),
  named(PAYOUT_DISCREPANCY, 'discrepancies', 'Payout differences', 'Payout difference', 'payout difference', 'payout differences'),
]

export function kindOf(kind: ReviewKind): NamedKind | undefined {
  return REVIEW_KINDS.find((each) => each.kind === kind)
}

/** The count of all kinds together. */
export function totalOf(counts: readonly ReviewCount[]): Pick<ReviewCount, 'count' | 'more'> {
  return {
    count: counts.reduce((sum, each) => sum + each.count, 0),
    more: counts.some(({ more }) => more),
  }
}

/** A count of items; `+`: there are more. */
export function countText({ count, more }: Pick<ReviewCount, 'count' | 'more'>): string {
  return `${countOf(count)}${more ? '+' : ''}`
}

/** Names an item in the URL and in the list. */
export function itemKey({ kind, id, live }: Pick<ReviewItem, 'kind' | 'id' | 'live'>): string {
  return `${kind}-${live ? 'live' : 'test'}-${id}`
}

/** Where an item is decided, and the word for it. */
export function placeOf(
  item: ReviewItem,
): readonly [path: string, word: string, query?: Readonly<Record<string, string>>] {
  const { kind, id, businessId, transactionId } = item
  const query = { item: itemKey(item) }
  switch (kind) {
    case UNMATCHED_PAYMENT:
      return ['/review', 'Assign', query]
    case PAYMENT_CONFLICT:
      return [`/payments/${transactionId}`, 'Compare']
    case HELD_PAYMENT:
      return [`/payments/${id}`, 'Decide']
    case ACCOUNT_OPENING:
      return [`/accounts/${businessId}/${id}`, 'Resolve']
    case ENDPOINT:
      return [`/webhooks/${id}`, 'Open']
    case PAYOUT_APPROVAL:
      return [`/payouts/${id}`, 'Decide']
    case PAYOUT:
      return [`/payouts/${id}`, 'Resolve']
    case SETTLEMENT:
      return ['/settlement', 'Settle', { business: businessId }]
    default:
      return ['/review', 'Review', query]
  }
}
