import { ResultKind, type SearchResult } from '../../../gen/inflow/overview/v1/search_pb.ts'

/** The page of a result. */
export function pathOfResult({ kind, id, reference, businessId }: SearchResult): string {
  switch (kind) {
    case ResultKind.TRANSACTION:
      return `/payments/${id}`
    case ResultKind.ACCOUNT:
      return `/accounts/${businessId}/${reference}`
    case ResultKind.EVENT:
      return `/events/${id}`
    case ResultKind.DELIVERY:
      return `/webhooks/deliveries/${id}`
    case ResultKind.ENDPOINT:
      return `/webhooks/${id}`
    case ResultKind.BUSINESS:
      return `/businesses/${id}`
    case ResultKind.SETTLEMENT:
      return `/settlement/${id}`
    case ResultKind.TOKEN:
      return '/access'
    case ResultKind.KEY:
      return `/businesses/${businessId}`
    default:
      return '/review'
  }
}
