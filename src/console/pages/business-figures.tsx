import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { count } from '../format/money.ts'
import { useAllowedQuery } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'
import { Failure, Section } from '../ui/page.tsx'
import { Figure, Money, PageLink } from '../ui/values.tsx'
import { stateOf } from './webhooks-page.tsx'

/** The most endpoints of a business in both modes together, which one page has. */
const ENDPOINTS_MAX = 200

/** How a business does in the mode that is shown: its balance, the last 24 hours, and the health of its endpoints. */
export function BusinessFigures({ businessId }: { readonly businessId: string }) {
  const { live } = useViewScope()
  const request = { businessId, test: !live }
  const overview = useAllowedQuery(OverviewService.method.getOverview, request)
  const balance = useAllowedQuery(SettlementService.method.getBalance, request)
  const health = useEndpointHealth(businessId, live)
  const error = overview.error ?? balance.error ?? health.error
  const { total } = overview.data ?? {}
  const money = balance.data?.balance
  const link = (to: string, text: string) => (
    <PageLink to={to} query={{ business: businessId }}>
      {text}
    </PageLink>
  )
  const failed = total && total.attempts - total.delivered
  return (
    <Section title={`In ${live ? 'live' : 'test'} mode`}>
      {error !== null && <Failure error={error} />}
      <ul className="figures">
        {money && (
          <Figure title="Available" note="settled, less fees and reversals">
            <Money minor={money.availableMinor} />
          </Figure>
        )}
        {money && (
          <Figure title="Pending" note="received and not settled yet">
            <Money minor={money.pendingMinor} />
          </Figure>
        )}
        {total && (
          <Figure
            title={link('/payments', 'Payments')}
            note={`of the last 24 hours, ${count(total.payments)} in number, held ones included`}
          >
            <Money minor={total.amountMinor} />
          </Figure>
        )}
        {total && failed !== undefined && (
          <Figure
            title={link('/webhooks', 'Failed attempts')}
            note={`of ${count(total.attempts)} at its endpoints in the last 24 hours; ${count(total.failed)} deliveries failed for good`}
          >
            {count(failed)}
          </Figure>
        )}
        {health.text !== undefined && (
          <Figure title={link('/webhooks', 'Healthy endpoints')} note={health.text}>
            {health.number}
          </Figure>
        )}
      </ul>
    </Section>
  )
}

/** How many endpoints of a business work, and what is wrong with the others. */
function useEndpointHealth(businessId: string, live: boolean) {
  const { listEndpoints, getEndpointStatistics } = WebhookService.method
  const list = useAllowedQuery(listEndpoints, { businessId, pageSize: ENDPOINTS_MAX })
  const statistics = useAllowedQuery(getEndpointStatistics, { businessId })
  const error = list.error ?? statistics.error
  if (!list.data || !statistics.data) return { error, number: '', text: undefined }
  const byId = new Map(statistics.data.statistics.map((each) => [each.endpointId, each]))
  const states = list.data.endpoints
    .filter((endpoint) => endpoint.live === live)
    .map((endpoint) => stateOf(endpoint, byId.get(endpoint.id)))
  const wrong = Map.groupBy(
    states.filter(({ tone }) => tone !== 'good'),
    ({ label }) => label.toLowerCase(),
  )
  const faults = [...wrong].map(([label, found]) => `${count(found.length)} ${label}`)
  const healthy = states.filter(({ tone }) => tone === 'good').length
  return {
    error,
    number: `${count(healthy)} of ${count(states.length)}`,
    text: states.length === 0 ? 'there are none' : faults.join(', ') || 'all of them work',
  }
}
