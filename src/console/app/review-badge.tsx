import { useQuery } from '@connectrpc/connect-query'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { useViewScope } from '../session/view-scope.ts'

/** How often the count is read: no stream has all that needs an operator. */
const REFRESH_MS = 30_000

/** How many items wait for an operator. */
export function ReviewBadge() {
  const { live, businessId } = useViewScope()
  const { data } = useQuery(
    OverviewService.method.listReviewItems,
    { live, businessId, pageSize: 1 },
    { refetchInterval: REFRESH_MS },
  )
  const counts = data?.counts ?? []
  const total = counts.reduce((sum, { count }) => sum + count, 0)
  if (total === 0) return null
  const isCut = counts.some(({ more }) => more)
  return (
    <span className="badge">
      {`${total}${isCut ? '+' : ''}`}
      <span className="hidden"> items wait</span>
    </span>
  )
}
