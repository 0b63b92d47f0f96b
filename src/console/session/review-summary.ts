import { useQuery } from '@connectrpc/connect-query'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { useViewScope } from './view-scope.tsx'

export const SUMMARY_ITEMS = 5

/** How often the summary is read. It is polled, because no stream covers all kinds of items. */
const REFRESH_MS = 30_000

/** The oldest items that wait for an operator, and the count of each kind. All components share one call. */
export function useReviewSummary() {
  const { live, businessId } = useViewScope()
  return useQuery(
    OverviewService.method.listReviewItems,
    { live, businessId, pageSize: SUMMARY_ITEMS },
    { refetchInterval: REFRESH_MS },
  )
}
