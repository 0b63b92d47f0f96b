import '../styles/webhooks.css'
import { useQuery } from '@connectrpc/connect-query'
import { useParams } from 'wouter'
import {
  type Attempt,
  type Delivery,
  DeliveryStatus,
  HeaderOmission,
  type WebhookHeader,
  type WebhookRequest,
} from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import {
  type GetDeliveryResponse,
  WebhookService,
} from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { curlOfWebhook } from '../format/curl.ts'
import { words } from '../format/ids.ts'
import { durationText } from '../format/time.ts'
import { useShowObject } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { Code, CopyButton } from '../ui/button.tsx'
import { Facts, Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { Id, PageLink, Status, Time } from '../ui/values.tsx'
import { nextReadMs, stateOfDelivery } from './delivery-state.ts'

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

/** A request with its headers and body, as the next attempt would send it. */
function RequestShown({ request }: { readonly request: WebhookRequest }) {
  return (
    <>
      <p className="request-line">
        <code>
          {request.method} {request.url}
        </code>
        <CopyButton text={curlOfWebhook(request)} what="the request as curl" label="Copy as curl" />
      </p>
      <table className="headers" aria-label="Headers">
        <tbody>
          {request.headers.map((header) => (
            <tr key={header.name}>
              <th scope="row">
                <code>{header.name}</code>
              </th>
              <td>{valueShown(header)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Code title="Body" text={request.body} />
      <p className="faint hint">
        As the next attempt would send it. The body of earlier attempts was the same.
      </p>
    </>
  )
}

function valueShown({ value, omission }: WebhookHeader) {
  if (omission === HeaderOmission.SECRET) return <span className="faint">secret</span>
  if (omission === HeaderOmission.BY_ATTEMPT) {
    return <span className="faint">differs by attempt, and is not stored</span>
  }
  return <code>{value}</code>
}

/** The attempts, oldest first; each opens in place. What is still to happen is grey. */
function Attempts({
  delivery,
  attempts,
}: {
  readonly delivery: Delivery
  readonly attempts: readonly Attempt[]
}) {
  const isPending = delivery.status === DeliveryStatus.PENDING
  const earlier = delivery.attemptCount - attempts.length
  return (
    <ol className="attempts">
      {earlier > 0 && <li className="faint">{earlier} earlier attempts are not listed.</li>}
      {attempts.map((attempt, index) => (
        <AttemptShown
          key={attempt.number}
          attempt={attempt}
          isOpen={index === attempts.length - 1}
        />
      ))}
      {isPending && (
        <li className="faint next-attempt">
          {attempts.length === 0 ? 'First attempt' : 'Next attempt'} <Time at={delivery.dueAt} />
        </li>
      )}
      {!isPending && attempts.length === 0 && <li className="faint">It was never sent.</li>}
    </ol>
  )
}

function AttemptShown({
  attempt,
  isOpen,
}: {
  readonly attempt: Attempt
  readonly isOpen: boolean
}) {
  const { number, statusCode, latencyMs, error, responseBody } = attempt
  return (
    <li>
      <details open={isOpen}>
        <summary>
          <span>Attempt {number}</span>
          <Status tone={error === '' ? 'good' : 'bad'}>
            {statusCode === 0 ? 'No response' : String(statusCode)}
          </Status>
          <span className="number">{durationText(latencyMs)}</span>
          {error !== '' && <span className="fault">{error}</span>}
          <Time at={attempt.startedAt} />
        </summary>
        {responseBody === '' ? (
          <p className="faint">The response has no body.</p>
        ) : (
          <Code title="Response body, its first 4 KiB" text={responseBody} />
        )}
      </details>
    </li>
  )
}
