import { skipToken, useQuery } from '@connectrpc/connect-query'
import { OverviewService } from '../../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind } from '../../../../gen/inflow/overview/v1/search_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { useSession } from '../../session/session.tsx'
import { useUrlState } from '../../session/view-scope.ts'

/** All endpoints of a business: it can have 50 in each mode. */
const PAGE_SIZE = 200

/**
 * Finds an endpoint by its id. Links of lists name its business, so that one call is enough; without it, a search
 * says whose it is.
 */
export function useEndpoint(endpointId: string) {
  const { businessIds } = useSession()
  const [of] = useUrlState('of')
  const named = of !== '' ? of : businessIds.length === 1 ? (businessIds[0] ?? '') : ''
  const found = useQuery(
    OverviewService.method.search,
    named === '' ? { query: endpointId } : skipToken,
  )
  const result = found.data?.results.find(
    ({ kind, id }) => kind === ResultKind.ENDPOINT && id === endpointId,
  )
  const businessId = named !== '' ? named : result?.businessId
  const list = useQuery(
    WebhookService.method.listEndpoints,
    businessId === undefined ? skipToken : { businessId, pageSize: PAGE_SIZE },
  )
  return {
    endpoint: list.data?.endpoints.find(({ id }) => id === endpointId),
    error: found.error ?? list.error,
    /** There is no such endpoint. */
    isMissing: list.data !== undefined || (found.data !== undefined && result === undefined),
    refetch: () => void (found.error ? found.refetch() : list.refetch()),
  }
}
