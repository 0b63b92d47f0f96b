import { useQuery } from '@connectrpc/connect-query'
import { useParams } from 'wouter'
import { EventService } from '../../../../gen/inflow/event/v1/event_service_pb.ts'
import { type Delivery, DeliveryStatus } from '../../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { count } from '../../format/money.ts'
import { useMay } from '../../session/session.tsx'
import { useShowObject } from '../../session/shown-object.tsx'
import { useHref } from '../../session/view-scope.ts'
import { PageLink } from '../../ui/href.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { type Column, Table } from '../../ui/lists/table.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Facts, Page, Section } from '../../ui/page.tsx'
import { Status, type Tone } from '../../ui/status.tsx'
import { Id, Time } from '../../ui/values.tsx'
import '../../styles/events.css'
import { EventJson } from './event-json.tsx'
import { subjectOf } from './event-rows.ts'

/** One event: its content, and to whom it was sent. */
export function EventPage() {
  const { id = '' } = useParams<{ id: string }>()
  const { data, error, refetch } = useQuery(EventService.method.getEvent, { eventId: id })
  const event = data?.event
  useShowObject(event)
  const mayList = useMay()(WebhookService.method.listDeliveries)
  return (
    <Page title={event?.kind ?? 'Event'} actions={<Id text={id} charsMax={40} />}>
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <Waiting rows={10} />}
      {event && (
        <div className="two-thirds">
          <EventJson event={event} />
          <aside aria-label="The event">
            <Facts
              facts={[
                ['In the log', `#${count(event.position)}`],
                [
                  'Business',
                  event.businessId && (
                    <PageLink to={`/businesses/${event.businessId}`}>{event.businessId}</PageLink>
                  ),
                ],
                [
                  'Of the business',
                  event.businessSequence > 0n ? `#${count(event.businessSequence)}` : '',
                ],
                ['Occurred', <Time key="occurred" at={event.occurredAt} />],
                ['Mode', event.live ? 'Live' : 'Test'],
                ['About', <Subject key="about" {...subjectOf(event)} />],
              ]}
            />
            {mayList && <Deliveries eventId={id} />}
          </aside>
        </div>
      )}
    </Page>
  )
}

function Subject({ text, to }: { readonly text: string; readonly to: string }) {
  return to === '' ? <span className="faint">–</span> : <PageLink to={to}>{text}</PageLink>
}

const STATES: Readonly<Record<number, readonly [Tone, string]>> = {
  [DeliveryStatus.PENDING]: ['waiting', 'Pending'],
  [DeliveryStatus.DELIVERED]: ['good', 'Delivered'],
  [DeliveryStatus.FAILED]: ['bad', 'Failed'],
}

const COLUMNS: readonly Column<Delivery>[] = [
  {
    key: 'status',
    title: 'Status',
    render: ({ status }) => {
      const [tone, name] = STATES[status] ?? ['neutral', 'Unknown']
      return <Status tone={tone}>{name}</Status>
    },
  },
  {
    key: 'endpoint',
    title: 'Endpoint',
    render: ({ endpointId }) => <Id text={endpointId} charsMax={14} />,
  },
  {
    key: 'attempts',
    title: 'Attempts',
    isNumber: true,
    render: ({ attemptCount }) => String(attemptCount),
  },
]

function Deliveries({ eventId }: { readonly eventId: string }) {
  const href = useHref()
  const { data, error, isPending, refetch } = useQuery(WebhookService.method.listDeliveries, {
    eventId,
  })
  return (
    <Section title="Deliveries">
      {isPending && <Waiting rows={2} />}
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {data?.deliveries.length === 0 && <p className="faint">It was sent to no endpoint.</p>}
      {data && data.deliveries.length > 0 && (
        <Table
          label="Deliveries"
          columns={COLUMNS}
          rows={data.deliveries}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => href(`/webhooks/deliveries/${id}`)}
        />
      )}
    </Section>
  )
}
