import '../styles/webhooks.css'
import { useInfiniteQuery, useQuery } from '@connectrpc/connect-query'
import {
  type Endpoint,
  type EndpointProfile,
  type EndpointStatistics,
  EndpointStatus,
} from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { words } from '../format/ids.ts'
import { count } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { useHref, useUrlState, useViewScope } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { ChoiceFilter, FilterBar } from '../ui/filters.tsx'
import { BusinessField } from '../ui/form.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { Id, Sparkline, Status, Time } from '../ui/values.tsx'
import { EndpointFields } from './endpoint-fields.tsx'
import { failingFirst, stateOf, successText } from './endpoint-state.ts'
import { ProfileFields, readFormat } from './format-fields.tsx'
import { readOptions } from './options-text.ts'

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

function CreateEndpoint() {
  const { live } = useViewScope()
  return (
    <Action
      method={WebhookService.method.createEndpoint}
      label="Create endpoint"
      kind="primary"
      icon="plus"
      says={`It receives the events of ${live ? 'live' : 'test'} mode that are recorded from now on.`}
      target={({ endpoint }) => endpoint?.id ?? ''}
      request={(_reason, form) => ({
        businessId: form.text('businessId'),
        url: form.text('url'),
        kinds: form.all('kinds'),
        description: form.text('description'),
        concurrency: form.whole('concurrency'),
        test: !live,
        options: readOptions(form),
        ...readFormat(form),
        profile: form.whole('profile') as EndpointProfile,
        textSecret: form.text('textSecret'),
      })}
      result={({ endpoint, secret }) => (
        <p>
          Created <code>{endpoint?.id}</code>.{' '}
          {secret && 'The receiver verifies signatures with this secret:'}
        </p>
      )}
      secret={({ secret }) => secret || undefined}
    >
      <BusinessField />
      <ProfileFields />
      <EndpointFields />
    </Action>
  )
}

/** What one call computes. */
const IDS_MAX = 100

/**
 * Returns how the deliveries to endpoints went in the last 24 hours, by endpoint. For a business it asks at once,
 * beside the list; for endpoints of all businesses when they are known, and of the first hundred.
 */
function useStatistics(
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

/**
 * The columns of the list of endpoints.
 *
 * @param nameOf of businesses; undefined: the list is of one business
 */
function endpointColumns(
  nameOf: ((businessId: string) => string) | undefined,
  statistics: ReadonlyMap<string, EndpointStatistics>,
): Column<Endpoint>[] {
  const of = ({ id }: Endpoint) => statistics.get(id)
  const business: Column<Endpoint> = {
    key: 'business',
    title: 'Business',
    render: ({ businessId }) => <span className="endpoint-business">{nameOf?.(businessId)}</span>,
  }
  return [
    { key: 'url', title: 'Endpoint', render: (endpoint) => <Url endpoint={endpoint} /> },
    ...(nameOf ? [business] : []),
    {
      key: 'state',
      title: 'State',
      render: (endpoint) => <EndpointStateShown endpoint={endpoint} />,
    },
    {
      key: 'success',
      title: 'Success',
      isNumber: true,
      render: (endpoint) => successText(of(endpoint)) ?? <span className="faint">–</span>,
    },
    {
      key: 'deliveries',
      title: 'Deliveries',
      isNumber: true,
      render: (endpoint) => count(of(endpoint)?.deliveryCount ?? 0),
      isExtra: true,
    },
    {
      key: 'pending',
      title: 'Pending',
      isNumber: true,
      render: (endpoint) => pendingText(of(endpoint)),
    },
    {
      key: 'latency',
      title: 'p50 · p95',
      isNumber: true,
      render: (endpoint) => latencyText(of(endpoint)),
    },
    {
      key: 'hours',
      title: 'p95 by hour',
      render: (endpoint) => <Hours statistics={of(endpoint)} />,
    },
    { key: 'id', title: 'Id', render: ({ id }) => <Id text={id} />, isExtra: true },
    {
      key: 'kinds',
      title: 'Kinds',
      render: ({ kinds }) => kinds.map((kind) => words(kind)).join(', ') || 'Default kinds',
      isExtra: true,
    },
    {
      key: 'created',
      title: 'Created',
      render: ({ createdAt }) => <Time at={createdAt} />,
      isExtra: true,
    },
  ]
}

function Url({ endpoint: { url, description } }: { readonly endpoint: Endpoint }) {
  return (
    <span className="endpoint-url" title={url}>
      {url}
      {description !== '' && <span className="faint"> {description}</span>}
    </span>
  )
}

function EndpointStateShown({ endpoint }: { readonly endpoint: Endpoint }) {
  const { tone, label } = stateOf(endpoint)
  const { failingSince, options } = endpoint
  return (
    <>
      <Status tone={tone}>{label}</Status>{' '}
      {options?.blockedBy && <Status tone="waiting">Blocked</Status>}
      {failingSince && (
        <span className="faint">
          {' since '}
          <Time at={failingSince} />
        </span>
      )}
    </>
  )
}

/** The most pending deliveries that the service counts. */
const PENDING_MAX = 1_000

function pendingText(statistics: EndpointStatistics | undefined): string {
  const pending = statistics?.pendingCount ?? 0
  return pending < PENDING_MAX ? count(pending) : `${count(pending)}+`
}

function latencyText(statistics: EndpointStatistics | undefined) {
  if (!statistics || statistics.latencyP95Ms === 0) return <span className="faint">–</span>
  return `${durationText(statistics.latencyP50Ms)} · ${durationText(statistics.latencyP95Ms)}`
}

function Hours({ statistics }: { readonly statistics: EndpointStatistics | undefined }) {
  const values = statistics?.hours.map(({ latencyP95Ms }) => latencyP95Ms) ?? []
  const max = Math.max(0, ...values)
  if (max === 0) return <span className="faint">–</span>
  return (
    <span className="endpoint-hours">
      <Sparkline values={values} label={`95th percentile by hour, at most ${durationText(max)}`} />
    </span>
  )
}
