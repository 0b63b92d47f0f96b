import { useQuery } from '@connectrpc/connect-query'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { useViewScope } from './view-scope.tsx'

export const SUMMARY_ITEMS = 5

/** How often it is read: no stream has all that needs an operator. */
const REFRESH_MS = 30_000

/** The oldest items that wait for an operator, and how many there are of each kind: one call for all who show it. */
export function useReviewSummary() {
  const { live, businessId } = useViewScope()
  return useQuery(
    OverviewService.method.listReviewItems,
    { live, businessId, pageSize: SUMMARY_ITEMS },
    { refetchInterval: REFRESH_MS },
  )
}
