import { useQuery } from '@connectrpc/connect-query'
import { useParams } from 'wouter'
import {
  type Attempt,
  type Delivery,
  DeliverySchema,
  DeliveryStatus,
  DeliveryStatusSchema,
  HeaderOmission,
  type WebhookRequest,
} from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { curlOfWebhook } from '../format/curl.ts'
import { enumChoices, enumValue } from '../format/enums.ts'
import { endpointName, words } from '../format/ids.ts'
import { naira } from '../format/money.ts'
import { durationText, msOf } from '../format/time.ts'
import { useArrivals } from '../session/live.tsx'
import { useShowObject, useUrlState } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { Code, CopyButton } from '../ui/button.tsx'
import { columnsOf, MessageFacts } from '../ui/columns.tsx'
import { ChoiceFilter, FilterBar, TimeFilter, useTimeRange } from '../ui/filters.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Empty, Loaded, Page, Section } from '../ui/page.tsx'
import { Clipped, Dash, EnumStatus, Money, PageLink, Status, Time } from '../ui/values.tsx'

const METHODS = WebhookService.method

/** The deliveries to an endpoint, filtered by status and time. New deliveries appear by themselves. */
export function Deliveries({ endpointId, businessId }: { endpointId: string; businessId: string }) {
  const [status] = useUrlState('status')
  const period = useTimeRange()
  const deliveries = usePagedList(
    METHODS.listDeliveries,
    'deliveries',
    {
      endpointId,
      pageSize: 50,
      status: enumValue(DeliveryStatusSchema, status) ?? DeliveryStatus.UNSPECIFIED,
      ...period,
    },
    { refetchMs: nextReadMs },
  )
  const isOfBusiness = (event: { readonly businessId: string }) => event.businessId === businessId
  const arrivals = useArrivals(deliveries.pages.refetch, isOfBusiness)
  return (
    <>
      <FilterBar>
        <ChoiceFilter name="status" label="Status" choices={enumChoices(DeliveryStatusSchema)} />
        <TimeFilter label="Created" />
      </FilterBar>
      <List
        label="Deliveries"
        columns={COLUMNS}
        of={deliveries}
        isExported
        hrefOf={({ id }, href) => href(`/webhooks/deliveries/${id}`)}
        empty={
          <Empty title="No deliveries" command={`inflow webhook test ${endpointId}`}>
            They appear when events of its kinds are recorded. A test event is sent at once.
          </Empty>
        }
      >
        {arrivals}
      </List>
    </>
  )
}

const SOON_MS = 2_000

/** During an attempt, a delivery is due when its lease of a minute ends, so it looks like a waiting delivery. */
const LEASE_MS = 75_000

/**
 * The interval in milliseconds at which to read deliveries again, because attempts have no stream. False: no delivery is
 * about to change.
 */
function nextReadMs(deliveries: readonly Delivery[]): number | false {
  const nowMs = Date.now()
  const waits = deliveries
    .filter(({ status }) => status === DeliveryStatus.PENDING)
    .map(({ dueAt }) => (msOf(dueAt) ?? nowMs) - nowMs)
  return waits.length > 0 && Math.max(SOON_MS, Math.min(...waits) - LEASE_MS)
}

const COLUMNS = columnsOf(DeliverySchema, [
  'createdAt',
  [
    'Amount',
    ({ payment }) => (payment ? <Money minor={payment.amountMinor} /> : <Dash />),
    'number',
  ],
  ['Customer', ({ payment }) => <Clipped text={payment?.customerName ?? ''} />],
  ['Event', ({ eventKind }) => words(eventKind) || 'Deleted', undefined, 'kind'],
  ['Status', stateShown],
  ['Attempts', 'attemptCount'],
  [
    'Response',
    ({ latestAttempt }) =>
      latestAttempt ? (
        latestAttempt.statusCode || 'None'
      ) : (
        <span className="faint">Not sent yet</span>
      ),
  ],
  [
    'Latency',
    ({ latestAttempt }) => latestAttempt && durationText(latestAttempt.latencyMs),
    'number',
  ],
  ['Problem', problemShown],
  ['Delivery', 'id', 'extra'],
  ['Event id', 'eventId', 'extra', 'event'],
])

function stateShown({ status }: Delivery) {
  return <EnumStatus of={DeliveryStatusSchema} value={status} />
}

function problemShown({ status, failure, latestAttempt, dueAt }: Delivery) {
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

/** One delivery: its attempts, its request, and the possible actions. */
export function DeliveryPage() {
  const { id = '' } = useParams()
  const read = useQuery(
    METHODS.getDelivery,
    { deliveryId: id },
    {
      refetchInterval: ({ state }) => nextReadMs(state.data?.delivery ? [state.data.delivery] : []),
    },
  )
  const { delivery, attempts = [], request } = read.data ?? {}
  useShowObject(read.data)
  if (!delivery) {
    return (
      <Page title="Delivery">
        <Loaded read={read} />
      </Page>
    )
  }
  const { endpointUrl, endpointDescription } = delivery
  return (
    <Page
      title={`${words(delivery.eventKind) || 'Delivery'} to ${endpointName(endpointUrl, endpointDescription)}`}
      actions={<DeliveryActions delivery={delivery} />}
    >
      <p className="state-line">
        {stateShown(delivery)}
        {delivery.failure !== '' && <span>{delivery.failure}</span>}
      </p>
      <div className="two-thirds">
        <div>
          <Section title="Attempts">
            <Attempts delivery={delivery} attempts={attempts} />
          </Section>
          <Section title="Request">
            <RequestShown request={request} />
            {request && (
              <p className="faint hint">
                As the next attempt would send it. The body of earlier attempts was the same.
              </p>
            )}
          </Section>
        </div>
        <div className="panel">
          <DeliveryFacts delivery={delivery} />
        </div>
      </div>
    </Page>
  )
}

interface Props {
  readonly delivery: Delivery
}

function DeliveryFacts({ delivery }: Props) {
  const { endpointId, endpointUrl, eventId, payment } = delivery
  const isPending = delivery.status === DeliveryStatus.PENDING
  return (
    <MessageFacts
      schema={DeliverySchema}
      of={delivery}
      facts={[
        [
          'Payment',
          () =>
            payment && (
              <PageLink to={`/payments/${payment.transactionId}`}>
                {naira(payment.amountMinor)}, {payment.customerName}
              </PageLink>
            ),
        ],
        ['Delivery', 'id'],
        ['Endpoint', () => <PageLink to={`/webhooks/${endpointId}`}>{endpointUrl}</PageLink>],
        ['Event', () => eventId !== '' && <PageLink to={`/events/${eventId}`}>{eventId}</PageLink>],
        'createdAt',
        ['Attempts', 'attemptCount'],
        ['Next attempt', ({ dueAt }) => isPending && <Time at={dueAt} />],
        'completedAt',
      ]}
    />
  )
}

export function Redeliver({
  delivery: { id },
  ...rest
}: Props & {
  readonly says: string
  readonly label?: string
  readonly isOffered?: boolean
  readonly kind?: 'primary'
}) {
  return (
    <Action
      label="Redeliver"
      {...rest}
      method={METHODS.redeliver}
      target={id}
      request={{ deliveryId: id }}
      result={() => <p>It is due now.</p>}
    />
  )
}

function DeliveryActions({ delivery }: Props) {
  return (
    <>
      <Redeliver
        delivery={delivery}
        kind="primary"
        says="It is sent again at once, with all retries ahead of it, even if it was acknowledged before. Receivers recognise the repeat by its webhook-id."
      />
      {delivery.status === DeliveryStatus.PENDING && (
        <Action
          method={METHODS.skipDelivery}
          label="Skip"
          kind="danger"
          target={delivery.id}
          says="It becomes failed without an acknowledgement. An ordered endpoint is sent its next events."
          request={{ deliveryId: delivery.id }}
          isReadLater
        />
      )}
    </>
  )
}

const OMISSION_TEXTS: Readonly<Record<number, string>> = {
  [HeaderOmission.SECRET]: 'secret',
  [HeaderOmission.BY_ATTEMPT]: 'differs by attempt, and is not stored',
}

/** A request with its headers and body; absent after the event or the endpoint was deleted. */
export function RequestShown({ request }: { readonly request: WebhookRequest | undefined }) {
  if (request === undefined) {
    return <p className="faint">The event or the endpoint was deleted, and the request with it.</p>
  }
  return (
    <div className="request">
      <p className="request-line">
        <code>
          {request.method} {request.url}
        </code>
        <CopyButton text={curlOfWebhook(request)} what="the request as curl" label="Copy as curl" />
      </p>
      <table className="headers" aria-label="Headers">
        <tbody>
          {request.headers.map(({ name, value, omission }) => (
            <tr key={name}>
              <th scope="row">
                <code>{name}</code>
              </th>
              <td>
                {omission === HeaderOmission.UNSPECIFIED ? (
                  <code>{value}</code>
                ) : (
                  <span className="faint">{OMISSION_TEXTS[omission]}</span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Code title="Request body" text={request.body} />
    </div>
  )
}

/** The attempts, oldest first; each opens in place. Expected attempts are grey. */
function Attempts({ delivery, attempts }: Props & { readonly attempts: readonly Attempt[] }) {
  const isPending = delivery.status === DeliveryStatus.PENDING
  const earlier = delivery.attemptCount - attempts.length
  return (
    <ol className="attempts">
      {earlier > 0 && <li className="faint">{earlier} earlier attempts are not listed.</li>}
      {attempts.map((attempt, index) => (
        <li key={attempt.number}>
          <details open={index === attempts.length - 1}>
            <AttemptShown attempt={attempt} />
          </details>
        </li>
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

function AttemptShown({ attempt }: { readonly attempt: Attempt }) {
  const { number, statusCode, latencyMs, error, responseBody } = attempt
  return (
    <>
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
    </>
  )
}
