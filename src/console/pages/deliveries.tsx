import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { useInfiniteQuery } from '@connectrpc/connect-query'
import { type Delivery, DeliveryStatus } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { words } from '../format/ids.ts'
import { durationText } from '../format/time.ts'
import { useArrivals } from '../session/live.tsx'
import { useHref, useUrlState } from '../session/view-scope.tsx'
import { ChoiceFilter, FilterBar, readTime, TimeFilter } from '../ui/filters.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty } from '../ui/page.tsx'
import { Id, Status, Time } from '../ui/values.tsx'
import { nextReadMs, stateOfDelivery } from './delivery-state.ts'

const STATUSES = [
  { value: 'pending', label: 'Pending' },
  { value: 'delivered', label: 'Delivered' },
  { value: 'failed', label: 'Failed' },
]

const STATUS_OF: Readonly<Record<string, DeliveryStatus>> = {
  pending: DeliveryStatus.PENDING,
  delivered: DeliveryStatus.DELIVERED,
  failed: DeliveryStatus.FAILED,
}

/** The deliveries to an endpoint, by status and time; new ones appear by themselves. */
export function Deliveries({
  endpointId,
  businessId,
}: {
  readonly endpointId: string
  readonly businessId: string
}) {
  const href = useHref()
  const pages = useDeliveries(endpointId)
  const arrivals = useArrivals(pages.refetch, (event) => event.businessId === businessId)
  const deliveries = pages.data?.pages.flatMap((page) => page.deliveries) ?? []
  return (
    <>
      <FilterBar>
        <ChoiceFilter name="status" label="Status" choices={STATUSES} />
        <TimeFilter label="Created" />
      </FilterBar>
      <ListFrame
        pages={pages}
        isEmpty={deliveries.length === 0}
        empty={
          <Empty title="No deliveries" command={`inflow webhook test ${endpointId}`}>
            They appear when events of its kinds are recorded. A test event is sent at once.
          </Empty>
        }
      >
        {arrivals}
        <Table
          label="Deliveries"
          columns={COLUMNS}
          rows={deliveries}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => href(`/webhooks/deliveries/${id}`)}
        />
      </ListFrame>
    </>
  )
}

function useDeliveries(endpointId: string) {
  const [status] = useUrlState('status')
  const fromMs = readTime(useUrlState('from')[0])
  const toMs = readTime(useUrlState('to')[0])
  return useInfiniteQuery(
    WebhookService.method.listDeliveries,
    {
      endpointId,
      pageSize: 50,
      pageToken: '',
      status: STATUS_OF[status] ?? DeliveryStatus.UNSPECIFIED,
      ...(fromMs !== undefined && { from: timestampFromMs(fromMs) }),
      ...(toMs !== undefined && { to: timestampFromMs(toMs) }),
    },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
      refetchInterval: ({ state }) =>
        nextReadMs(state.data?.pages.flatMap((page) => page.deliveries) ?? [], Date.now()),
    },
  )
}

const COLUMNS: readonly Column<Delivery>[] = [
  { key: 'created', title: 'Created', render: ({ createdAt }) => <Time at={createdAt} /> },
  { key: 'kind', title: 'Event', render: ({ eventKind }) => words(eventKind) || 'Deleted' },
  { key: 'status', title: 'Status', render: (delivery) => <State delivery={delivery} /> },
  {
    key: 'attempts',
    title: 'Attempts',
    isNumber: true,
    render: ({ attemptCount }) => attemptCount,
  },
  {
    key: 'response',
    title: 'Response',
    render: ({ latestAttempt }) =>
      latestAttempt ? (
        latestAttempt.statusCode || 'None'
      ) : (
        <span className="faint">Not sent yet</span>
      ),
  },
  {
    key: 'latency',
    title: 'Latency',
    isNumber: true,
    render: ({ latestAttempt }) => latestAttempt && durationText(latestAttempt.latencyMs),
  },
  { key: 'problem', title: 'Problem', render: (delivery) => <Problem delivery={delivery} /> },
  { key: 'delivery', title: 'Delivery', render: ({ id }) => <Id text={id} /> },
  {
    key: 'event',
    title: 'Event id',
    render: ({ eventId }) => <Id text={eventId} />,
    isExtra: true,
  },
]

function State({ delivery }: { readonly delivery: Delivery }) {
  const { tone, label } = stateOfDelivery(delivery)
  return <Status tone={tone}>{label}</Status>
}

function Problem({
  delivery: { status, failure, latestAttempt, dueAt },
}: {
  readonly delivery: Delivery
}) {
  if (status === DeliveryStatus.DELIVERED) return null
  return (
    <span className="problem">
      {latestAttempt?.error || failure}
      {status === DeliveryStatus.PENDING && latestAttempt && (
        <span className="faint">
          {' · next attempt '}
          <Time at={dueAt} />
        </span>
      )}
    </span>
  )
}
