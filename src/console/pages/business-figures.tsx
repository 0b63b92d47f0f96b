import type { BusinessState } from '../../../gen/inflow/overview/v1/figures_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count } from '../format/money.ts'
import { useAllowedQuery } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'
import { Failure, Section } from '../ui/page.tsx'
import { Figure, Money, PageLink } from '../ui/values.tsx'

/** How a business does in the mode that is shown: its balance, the last 24 hours, and the health of its endpoints. */
export function BusinessFigures({ businessId }: { readonly businessId: string }) {
  const { live } = useViewScope()
  const request = { businessId, test: !live }
  const { data, error } = useAllowedQuery(OverviewService.method.getOverview, request)
  const { total, business } = data ?? {}
  const { getBalance } = SettlementService.method
  const { balance } = useAllowedQuery(getBalance, request).data ?? {}
  const link = (to: string, text: string) => (
    <PageLink to={to} query={{ business: businessId }}>
      {text}
    </PageLink>
  )
  return (
    <Section title={`In ${live ? 'live' : 'test'} mode`}>
      {error !== null && <Failure error={error} />}
      <ul className="figures">
        {business && (
          <>
            <Figure title="Available" note="settled, less fees, reversals and payouts">
              <Money minor={business.availableMinor} />
            </Figure>
            <Figure title="Pending" note="received and not settled yet">
              <Money minor={business.pendingMinor} />
            </Figure>
            {balance && (
              <Figure title={link('/payouts', 'Reserved')} note="for payouts that are not final">
                <Money minor={balance.reservedMinor} />
              </Figure>
            )}
          </>
        )}
        {total && (
          <>
            <Figure
              title={link('/payments', 'Payments')}
              note={`of the last 24 hours, ${count(total.payments)} in number, held ones included`}
            >
              <Money minor={total.amountMinor} />
            </Figure>
            <Figure
              title={link('/webhooks', 'Failed attempts')}
              note={`of ${count(total.attempts)} at its endpoints in the last 24 hours; ${count(total.failed)} deliveries failed for good`}
            >
              {count(total.attempts - total.delivered)}
            </Figure>
          </>
        )}
        {business && (
          <Figure title={link('/webhooks', 'Healthy endpoints')} note={faultsOf(business)}>
            {count(business.endpoints - business.failingEndpoints - business.disabledEndpoints)} of{' '}
            {count(business.endpoints)}
          </Figure>
        )}
      </ul>
    </Section>
  )
}

/** What is wrong with the endpoints of a business. */
function faultsOf({ endpoints, failingEndpoints, disabledEndpoints }: BusinessState): string {
  if (endpoints === 0) return 'there are none'
  const faults = [
    failingEndpoints > 0 && `${count(failingEndpoints)} failing`,
    disabledEndpoints > 0 && `${count(disabledEndpoints)} disabled`,
  ].filter((text) => text !== false)
  return faults.join(', ') || 'all of them work'
}
