import { useQuery } from '@connectrpc/connect-query'
import { useParams } from 'wouter'
import { type Delivery, DeliveryStatus } from '../../../../gen/inflow/webhook/v1/delivery_pb.ts'
import {
  type GetDeliveryResponse,
  WebhookService,
} from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { words } from '../../format/ids.ts'
import { useShowObject } from '../../session/shown-object.tsx'
import { Action } from '../../ui/controls/action.tsx'
import { PageLink } from '../../ui/href.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Facts, Page, Section } from '../../ui/page.tsx'
import { Status } from '../../ui/status.tsx'
import { Id, Time } from '../../ui/values.tsx'
import { Attempts } from './attempts.tsx'
import { nextReadMs, stateOfDelivery } from './delivery-state.ts'
import { RequestShown } from './request-shown.tsx'
import '../../styles/webhooks.css'

export function DeliveryPage() {
  const { id = '' } = useParams()
  const read = useQuery(
    WebhookService.method.getDelivery,
    { deliveryId: id },
    {
      refetchInterval: ({ state }) =>
        nextReadMs(state.data?.delivery ? [state.data.delivery] : [], Date.now()),
    },
  )
  useShowObject(read.data)
  if (read.data?.delivery) return <Shown delivery={read.data.delivery} response={read.data} />
  return (
    <Page title="Delivery">
      {read.error ? (
        <Failure error={read.error} onRetry={() => void read.refetch()} />
      ) : (
        <Waiting rows={12} />
      )}
    </Page>
  )
}

function Shown({
  delivery,
  response: { attempts, request },
}: {
  readonly delivery: Delivery
  readonly response: GetDeliveryResponse
}) {
  const { tone, label } = stateOfDelivery(delivery)
  return (
    <Page
      title={delivery.eventKind === '' ? 'Delivery' : `${words(delivery.eventKind)} delivery`}
      actions={<DeliveryActions delivery={delivery} />}
    >
      <p className="state-line">
        <Status tone={tone}>{label}</Status>
        {delivery.failure !== '' && <span>{delivery.failure}</span>}
      </p>
      <div className="two-thirds">
        <div>
          <Section title="Attempts">
            <Attempts delivery={delivery} attempts={attempts} />
          </Section>
          <Section title="Request">
            {request ? (
              <RequestShown request={request} />
            ) : (
              <p className="faint">The event or the endpoint was deleted.</p>
            )}
          </Section>
        </div>
        <div className="panel">
          <DeliveryFacts delivery={delivery} url={request?.url} />
        </div>
      </div>
    </Page>
  )
}

function DeliveryFacts({
  delivery,
  url,
}: {
  readonly delivery: Delivery
  readonly url: string | undefined
}) {
  const { id, endpointId, eventId, completedAt } = delivery
  const isPending = delivery.status === DeliveryStatus.PENDING
  return (
    <Facts
      facts={[
        ['Delivery', <Id key="id" text={id} />],
        [
          'Endpoint',
          <PageLink key="endpoint" to={`/webhooks/${endpointId}`}>
            {url ?? endpointId}
          </PageLink>,
        ],
        [
          'Event',
          eventId !== '' && (
            <PageLink key="event" to={`/events/${eventId}`}>
              {eventId}
            </PageLink>
          ),
        ],
        ['Created', <Time key="created" at={delivery.createdAt} />],
        ['Attempts', String(delivery.attemptCount)],
        ['Next attempt', isPending && <Time key="due" at={delivery.dueAt} />],
        ['Completed', completedAt && <Time key="completed" at={completedAt} />],
      ]}
    />
  )
}

function DeliveryActions({ delivery: { id, status } }: { readonly delivery: Delivery }) {
  return (
    <>
      <Action
        method={WebhookService.method.redeliver}
        label="Redeliver"
        kind="primary"
        target={id}
        says="It is sent again at once, with all retries ahead of it, even if it was acknowledged before. Receivers recognise the repeat by its webhook-id."
        request={() => ({ deliveryId: id })}
        result={() => <p>It is due now.</p>}
      />
      {status === DeliveryStatus.PENDING && (
        <Action
          method={WebhookService.method.skipDelivery}
          label="Skip"
          kind="danger"
          target={id}
          says="It becomes failed without an acknowledgement. An ordered endpoint is sent its next events."
          request={() => ({ deliveryId: id })}
          onClosed={() => {}}
        />
      )}
    </>
  )
}
