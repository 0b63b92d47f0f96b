import { useQuery } from '@connectrpc/connect-query'
import type { Endpoint, EndpointStatistics } from '../../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'

/** What one call computes. */
const IDS_MAX = 100

/**
 * Returns how the deliveries to endpoints went in the last 24 hours, by endpoint. For a business it asks at once,
 * beside the list; for endpoints of all businesses when they are known, and of the first hundred.
 */
export function useStatistics(
  endpoints: readonly Endpoint[],
  businessId: string,
): ReadonlyMap<string, EndpointStatistics> {
  const endpointIds = endpoints.slice(0, IDS_MAX).map(({ id }) => id)
  const request = businessId === '' ? { endpointIds } : { businessId }
  const { data } = useQuery(WebhookService.method.getEndpointStatistics, request, {
    enabled: businessId !== '' || endpointIds.length > 0,
    placeholderData: (previous) => previous,
  })
  return new Map(data?.statistics.map((each) => [each.endpointId, each]))
}
