import { useQuery } from '@connectrpc/connect-query'
import { useParams } from 'wouter'
import type { Endpoint } from '../../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { useShowObject } from '../../session/shown-object.tsx'
import { PageLink } from '../../ui/href.tsx'
import { Empty } from '../../ui/lists/empty.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Page, Section } from '../../ui/page.tsx'
import { Status } from '../../ui/status.tsx'
import { Deliveries } from './deliveries.tsx'
import { EndpointActions } from './endpoint-actions.tsx'
import { EndpointCharts } from './endpoint-charts.tsx'
import { EndpointFacts } from './endpoint-facts.tsx'
import { stateOf } from './endpoint-state.ts'
import { useEndpoint } from './find-endpoint.ts'
import '../../styles/webhooks.css'

export function EndpointPage() {
  const { id = '' } = useParams()
  const { endpoint, error, isMissing, refetch } = useEndpoint(id)
  useShowObject(endpoint)
  if (endpoint) return <Shown endpoint={endpoint} />
  return (
    <Page title="Endpoint">
      {error ? (
        <Failure error={error} onRetry={refetch} />
      ) : isMissing ? (
        <Empty title="There is no such endpoint">
          <span>
            It was deleted, or belongs to another business. <code>{id}</code>
          </span>
        </Empty>
      ) : (
        <Waiting rows={12} />
      )}
    </Page>
  )
}

function Shown({ endpoint }: { readonly endpoint: Endpoint }) {
  const { id, businessId, options } = endpoint
  const { data } = useQuery(WebhookService.method.getEndpointStatistics, { endpointIds: [id] })
  const { tone, label } = stateOf(endpoint)
  const statistics = data?.statistics[0]
  return (
    <Page title={hostOf(endpoint.url)} actions={<EndpointActions endpoint={endpoint} />} isWide>
      <p className="state-line">
        <Status tone={tone}>{label}</Status>
        <Status tone="neutral">{endpoint.live ? 'Live' : 'Test'}</Status>
        {options?.blockedBy && (
          <span>
            {options.blockedBy.waitingCount} deliveries wait for{' '}
            <PageLink to={`/webhooks/deliveries/${options.blockedBy.deliveryId}`}>
              one that was not acknowledged
            </PageLink>
          </span>
        )}
      </p>
      <EndpointFacts endpoint={endpoint} statistics={statistics} />
      {statistics && statistics.deliveryCount > 0 && <EndpointCharts statistics={statistics} />}
      <Section title="Deliveries">
        <Deliveries endpointId={id} businessId={businessId} />
      </Section>
    </Page>
  )
}

/** What an operator calls an endpoint; its whole URL is below. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url
}
