import { useInfiniteQuery } from '@connectrpc/connect-query'
import { type Endpoint, EndpointStatus } from '../../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { useBusinessNames } from '../../session/business-names.ts'
import { useHref, useUrlState, useViewScope } from '../../session/view-scope.ts'
import { ChoiceFilter, FilterBar } from '../../ui/controls/filters.tsx'
import { Empty } from '../../ui/lists/empty.tsx'
import { ListFrame } from '../../ui/lists/list.tsx'
import { Table } from '../../ui/lists/table.tsx'
import { Page } from '../../ui/page.tsx'
import { CreateEndpoint } from './create-endpoint.tsx'
import { endpointColumns } from './endpoint-columns.tsx'
import { failingFirst } from './endpoint-state.ts'
import { useStatistics } from './statistics.ts'
import '../../styles/webhooks.css'

const STATES = [
  { value: 'failing', label: 'Failing' },
  { value: 'enabled', label: 'Enabled' },
  { value: 'disabled', label: 'Disabled' },
]

/** What a state of the filter asks for. */
const REQUESTS: Readonly<Record<string, { status?: EndpointStatus; failing?: boolean }>> = {
  failing: { failing: true },
  enabled: { status: EndpointStatus.ENABLED },
  disabled: { status: EndpointStatus.DISABLED },
}

export function WebhooksPage() {
  const { live, businessId } = useViewScope()
  const [state] = useUrlState('state')
  const href = useHref()
  const pages = useInfiniteQuery(
    WebhookService.method.listEndpoints,
    { businessId, live, pageSize: 100, pageToken: '', ...REQUESTS[state] },
    { pageParamKey: 'pageToken', getNextPageParam: (last) => last.nextPageToken || undefined },
  )
  const endpoints = failingFirst(pages.data?.pages.flatMap((page) => page.endpoints) ?? [])
  const statistics = useStatistics(endpoints, businessId)
  const isOne = businessId !== ''
  const nameOf = useBusinessNames(isOne ? [] : endpoints.map((endpoint) => endpoint.businessId))
  const hrefOf = ({ id, businessId: of }: Endpoint) => href(`/webhooks/${id}`, { of })
  return (
    <Page title="Webhooks" actions={<CreateEndpoint />} isWide>
      <FilterBar>
        <ChoiceFilter name="state" label="State" choices={STATES} />
        <span className="faint">Of the last 24 hours</span>
      </FilterBar>
      <ListFrame pages={pages} isEmpty={endpoints.length === 0} empty={<NoEndpoints />}>
        <Table
          label="Endpoints"
          columns={endpointColumns(isOne ? undefined : nameOf, statistics)}
          rows={endpoints}
          keyOf={({ id }) => id}
          hrefOf={hrefOf}
        />
      </ListFrame>
    </Page>
  )
}

function NoEndpoints() {
  const { live, businessId } = useViewScope()
  const business = businessId === '' ? '' : ` --business ${businessId}`
  return (
    <Empty
      title="No endpoints"
      command={`inflow webhook add --url https://example.com/webhooks${business}${live ? '' : ' --test'}`}
    >
      Events are posted to the endpoints of a business, signed and repeated until they are
      acknowledged.
    </Empty>
  )
}
