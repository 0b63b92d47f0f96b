import { type ReviewItem, ReviewKind } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { ConflictDetails } from './conflict-details.tsx'
import { EndpointDetails } from './endpoint-details.tsx'
import { HeldPaymentDetails } from './held-payment-details.tsx'
import { NotificationDetails } from './notification-details.tsx'
import { OpeningDetails } from './opening-details.tsx'
import { SettlementDue } from './settlement-due.tsx'
import { UnmatchedDetails } from './unmatched-details.tsx'

/** What is known of an item, and what the bank says. */
export function ItemDetails({ item }: { readonly item: ReviewItem }) {
  switch (item.kind) {
    case ReviewKind.UNMATCHED_PAYMENT:
      return <UnmatchedDetails item={item} />
    case ReviewKind.HELD_NOTIFICATION:
      return <NotificationDetails item={item} />
    case ReviewKind.PAYMENT_CONFLICT:
      return <ConflictDetails item={item} />
    case ReviewKind.ACCOUNT_OPENING:
      return <OpeningDetails item={item} />
    case ReviewKind.HELD_PAYMENT:
      return <HeldPaymentDetails item={item} />
    case ReviewKind.ENDPOINT:
      return <EndpointDetails item={item} />
    case ReviewKind.SETTLEMENT:
      return <SettlementDue item={item} />
    default:
      return null
  }
}
