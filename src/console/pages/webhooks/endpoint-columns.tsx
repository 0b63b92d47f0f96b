import type { Endpoint, EndpointStatistics } from '../../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { words } from '../../format/ids.ts'
import { count } from '../../format/money.ts'
import { durationText } from '../../format/time.ts'
import { Sparkline } from '../../ui/charts/sparkline.tsx'
import type { Column } from '../../ui/lists/table.tsx'
import { Status } from '../../ui/status.tsx'
import { Id, Time } from '../../ui/values.tsx'
import { stateOf, successText } from './endpoint-state.ts'

/**
 * The columns of the list of endpoints.
 *
 * @param nameOf of businesses; undefined: the list is of one business
 */
export function endpointColumns(
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
    { key: 'state', title: 'State', render: (endpoint) => <State endpoint={endpoint} /> },
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

function State({ endpoint }: { readonly endpoint: Endpoint }) {
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
