import '../styles/webhooks.css'
import { skipToken, useQuery } from '@connectrpc/connect-query'
import { useMemo } from 'react'
import { useParams } from 'wouter'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind } from '../../../gen/inflow/overview/v1/search_pb.ts'
import type { Endpoint, EndpointStatistics } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { durationText, msOf } from '../format/time.ts'
import { useSession } from '../session/session.tsx'
import { useShowObject, useUrlState } from '../session/view-scope.tsx'
import { Chart } from '../ui/chart.tsx'
import { Empty, Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { PageLink, Status } from '../ui/values.tsx'
import { Deliveries } from './deliveries.tsx'
import { EndpointActions } from './endpoint-actions.tsx'
import { EndpointFacts } from './endpoint-facts.tsx'
import { stateOf } from './endpoint-state.ts'

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

/** All endpoints of a business: it can have 50 in each mode. */
const PAGE_SIZE = 200

/**
 * Finds an endpoint by its id. Links of lists name its business, so that one call is enough; without it, a search
 * says whose it is.
 */
function useEndpoint(endpointId: string) {
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

const whole = (value: number) => (Number.isInteger(value) ? String(value) : '')

/** The last 24 hours: how many were acknowledged and failed, and how long receivers took. */
function EndpointCharts({ statistics }: { readonly statistics: EndpointStatistics }) {
  const { hours } = statistics
  const { times, counts, latencies } = useMemo(
    () => ({
      times: hours.map(({ from }) => (msOf(from) ?? 0) / 1_000),
      counts: [
        { label: 'Delivered', colour: '--good', values: hours.map((each) => each.deliveredCount) },
        { label: 'Failed', colour: '--bad', values: hours.map((each) => each.failedCount) },
      ],
      latencies: [
        {
          label: 'p50',
          colour: '--accent',
          values: hours.map((each) => each.latencyP50Ms || null),
        },
        {
          label: 'p95',
          colour: '--waiting',
          values: hours.map((each) => each.latencyP95Ms || null),
        },
      ],
    }),
    [hours],
  )
  return (
    <div className="charts">
      <Section title="Deliveries by hour">
        <Chart label="Deliveries by hour" times={times} series={counts} format={whole} />
      </Section>
      <Section title="Latency by hour">
        <Chart label="Latency by hour" times={times} series={latencies} format={durationText} />
      </Section>
    </div>
  )
}
