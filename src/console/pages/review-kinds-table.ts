import {
  type ReviewCount,
  type ReviewItem,
  ReviewKind,
} from '../../../gen/inflow/overview/v1/review_pb.ts'

interface NamedKind {
  readonly kind: ReviewKind
  /** In the URL. */
  readonly code: string
  readonly name: string
  /** The name of one item. */
  readonly one: string
}

/** The kinds, in the order of their tabs. */
export const KINDS: readonly NamedKind[] = [
  {
    kind: ReviewKind.UNMATCHED_PAYMENT,
    code: 'unmatched',
    name: 'Unmatched payments',
    one: 'Unmatched payment',
  },
  {
    kind: ReviewKind.HELD_NOTIFICATION,
    code: 'notifications',
    name: 'Held notifications',
    one: 'Held notification',
  },
  { kind: ReviewKind.PAYMENT_CONFLICT, code: 'conflicts', name: 'Conflicts', one: 'Conflict' },
  { kind: ReviewKind.ACCOUNT_OPENING, code: 'openings', name: 'Openings', one: 'Opening' },
  { kind: ReviewKind.HELD_PAYMENT, code: 'held', name: 'Held payments', one: 'Held payment' },
  { kind: ReviewKind.ENDPOINT, code: 'endpoints', name: 'Endpoints', one: 'Endpoint' },
  { kind: ReviewKind.SETTLEMENT, code: 'settlements', name: 'Settlements', one: 'Settlement' },
]

/** The name of one item of a kind. */
export function kindName(kind: ReviewKind): string {
  return KINDS.find((each) => each.kind === kind)?.one ?? ''
}

/** @returns unspecified for a code that no kind has */
export function kindOf(code: string): ReviewKind {
  return KINDS.find((each) => each.code === code)?.kind ?? ReviewKind.UNSPECIFIED
}

/** Names an item in the URL and in the list. */
export function keyOf({ kind, id, live }: ReviewItem): string {
  return `${kind}-${live ? 'live' : 'test'}-${id}`
}

/** How many there are: `12`, or `1000+`. */
export function countText({ count, more }: Pick<ReviewCount, 'count' | 'more'>): string {
  return `${count}${more ? '+' : ''}`
}
