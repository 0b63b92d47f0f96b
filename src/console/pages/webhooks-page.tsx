import { useQuery } from '@connectrpc/connect-query'
import {
  DisabledReason,
  type Endpoint,
  EndpointSchema,
  type EndpointStatistics,
  EndpointStatus,
} from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { Tone } from '../format/enums.ts'
import { endpointName, placeOfUrl, words } from '../format/ids.ts'
import { count } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { useUrlState, useViewScope } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { ChoiceFilter, FilterBar } from '../ui/filters.tsx'
import { BusinessField } from '../ui/form.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { Dash, Sparkline, Status, Time } from '../ui/values.tsx'
import { EndpointFields, ProfileFields, readOptions } from './endpoint-form.tsx'

/** The states by which the list can be filtered, with their fields in the request. */
const STATES = [
  { value: 'failing', label: 'Failing', request: { failing: true } },
  { value: 'enabled', label: 'Enabled', request: { status: EndpointStatus.ENABLED } },
  { value: 'disabled', label: 'Disabled', request: { status: EndpointStatus.DISABLED } },
]

/** The endpoints of a business, or of all, with their statistics: problematic endpoints first, then the newest. */
export function WebhooksPage() {
  const { live, businessId } = useViewScope()
  const [state] = useUrlState('state')
  const chosen = STATES.find(({ value }) => value === state)
  const request = { businessId, live, pageSize: 100, ...chosen?.request }
  const { rows, pages } = usePagedList(WebhookService.method.listEndpoints, 'endpoints', request)
  const endpoints = rows.toSorted((a, b) => stateOf(a).rank - stateOf(b).rank)
  const statistics = useStatistics(endpoints, businessId)
  const business = businessId === '' ? '' : ` --business ${businessId}`
  return (
    <Page title="Webhooks" actions={<CreateEndpoint />} isWide>
      <FilterBar>
        <ChoiceFilter name="state" label="State" choices={STATES} />
        <span className="faint">Of the last 24 hours</span>
      </FilterBar>
      <List
        label="Endpoints"
        columns={endpointColumns(statistics)}
        of={{ rows: endpoints, pages }}
        hrefOf={({ id, businessId: of }, href) => href(`/webhooks/${id}`, { of })}
        empty={
          <Empty
            title="No endpoints"
            command={`inflow webhook add --url https://example.com/webhooks${business}${live ? '' : ' --test'}`}
          >
            Events are posted to the endpoints of a business, signed and repeated until they are
            acknowledged.
          </Empty>
        }
      />
    </Page>
  )
}

export function stateOf(
  { status, disabledReason, failingSince }: Endpoint,
  statistics?: EndpointStatistics,
): { readonly tone: Tone; readonly label: string; readonly rank: number } {
  if (status === EndpointStatus.DISABLED) {
    if (disabledReason === DisabledReason.REQUESTED)
      return { tone: 'neutral', label: 'Disabled', rank: 3 }
    const isGone = disabledReason === DisabledReason.GONE
    return { tone: 'bad', label: isGone ? 'Disabled: gone' : 'Disabled: failed', rank: 1 }
  }
  if (failingSince) return { tone: 'bad', label: 'Failing', rank: 0 }
  if (failingShare(statistics) > DEGRADED) return { tone: 'waiting', label: 'Degraded', rank: 2 }
  return { tone: 'good', label: 'Enabled', rank: 2 }
}

/** An endpoint is degraded from this share of failed attempts. */
const DEGRADED = 0.05

/** The share of the last day's attempts that the receiver did not acknowledge, from 0 to 1. */
function failingShare(statistics: EndpointStatistics | undefined): number {
  if (statistics === undefined || statistics.attemptCount === 0n) return 0
  return 1 - statistics.deliveredCount / Number(statistics.attemptCount)
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
      request={(form, { options }) => ({ test: !live, options: readOptions(form, options) })}
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

/** The most endpoints whose statistics one call computes. */
const IDS_MAX = 100

/**
 * Returns the statistics of the last 24 hours by endpoint. For one business, they are requested at the same time as the list;
 * for all businesses, after the list is known, and only for the first hundred endpoints.
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

function endpointColumns(statistics: ReadonlyMap<string, EndpointStatistics>) {
  const of = ({ id }: Endpoint) => statistics.get(id)
  return columnsOf(EndpointSchema, [
    ['Endpoint', urlShown, undefined, 'url'],
    'businessId',
    ['State', (endpoint) => stateShown(endpoint, of(endpoint))],
    ['Success', (endpoint) => successText(of(endpoint)) ?? <Dash />, 'number'],
    ['Deliveries', (endpoint) => count(of(endpoint)?.deliveryCount ?? 0), 'number extra'],
    ['Pending', (endpoint) => pendingText(of(endpoint)), 'number'],
    ['p50 · p95', (endpoint) => latencyText(of(endpoint)), 'number', 'latency'],
    ['p95 by hour', (endpoint) => <Hours statistics={of(endpoint)} />, undefined, 'hours'],
    ['Id', 'id', 'extra'],
    ['Kinds', ({ kinds }) => kindsText(kinds) || 'Default kinds', 'extra'],
    ['Created', 'createdAt', 'extra'],
  ])
}

export function kindsText(kinds: readonly string[]): string {
  return kinds.map(words).join(', ')
}

function urlShown({ url, description }: Endpoint) {
  return (
    <span className="endpoint-url" title={url}>
      {endpointName(url, description)}
      {description !== '' && <span className="faint"> {placeOfUrl(url)}</span>}
    </span>
  )
}

function stateShown(endpoint: Endpoint, statistics: EndpointStatistics | undefined) {
  const { tone, label } = stateOf(endpoint, statistics)
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

/** The share of attempts that the receiver acknowledged, `99.2 %`; undefined: there was no attempt. */
export function successText(statistics: EndpointStatistics | undefined): string | undefined {
  if (statistics === undefined || statistics.attemptCount === 0n) return undefined
  const { deliveredCount, attemptCount } = statistics
  // Rounded down: 100 % means that none failed.
  return `${Math.floor((deliveredCount / Number(attemptCount)) * 1000) / 10} %`
}

/** The most pending deliveries that the service counts. */
const PENDING_MAX = 1_000

function pendingText(statistics: EndpointStatistics | undefined): string {
  const pending = statistics?.pendingCount ?? 0
  return pending < PENDING_MAX ? count(pending) : `${count(pending)}+`
}

function latencyText(statistics: EndpointStatistics | undefined) {
  if (!statistics || statistics.latencyP95Ms === 0) return <Dash />
  return `${durationText(statistics.latencyP50Ms)} · ${durationText(statistics.latencyP95Ms)}`
}

function Hours({ statistics }: { readonly statistics: EndpointStatistics | undefined }) {
  const values = statistics?.hours.map(({ latencyP95Ms }) => latencyP95Ms) ?? []
  const max = Math.max(0, ...values)
  if (max === 0) return <Dash />
  return (
    <span className="endpoint-hours">
      <Sparkline values={values} label={`95th percentile by hour, at most ${durationText(max)}`} />
    </span>
  )
}
