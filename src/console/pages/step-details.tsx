import { useMutation, useQuery } from '@connectrpc/connect-query'
import { NotificationService } from '../../../gen/inflow/notification/v1/notification_service_pb.ts'
import type {
  BankNotified,
  EventNumbered,
  PaymentRecorded,
  PaymentReversed,
  PaymentSettled,
  Timeline,
} from '../../../gen/inflow/overview/v1/timeline_pb.ts'
import type { PaymentConflict } from '../../../gen/inflow/reconciliation/v1/payment_conflict_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import type { Transaction } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  type Attempt,
  HeaderOmission,
  type WebhookHeader,
  type WebhookRequest,
} from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { curlOfWebhook } from '../format/curl.ts'
import { words } from '../format/ids.ts'
import { count, naira } from '../format/money.ts'
import { HOLD_STATES, nameOf, STATUSES, VARIANCES } from '../format/payments.ts'
import { useMay } from '../session/session.tsx'
import { Action } from '../ui/action.tsx'
import { Button, Code, CopyButton } from '../ui/button.tsx'
import { Facts, Failure, Waiting } from '../ui/page.tsx'
import { Id, PageLink, Time } from '../ui/values.tsx'
import type { TimelineRow } from './timeline.tsx'

/** All that is known of a step. */
export function StepDetails({
  row: { step, text },
  timeline,
}: {
  readonly row: TimelineRow
  readonly timeline: Timeline
}) {
  switch (step.case) {
    case 'bankNotified':
      return <NotificationDetails notified={step.value} />
    case 'paymentRecorded':
      return <RecordedFacts recorded={step.value} by={text} id={timeline.transaction?.id ?? ''} />
    case 'eventNumbered':
      return <EventFacts event={step.value} />
    case 'deliveryAttempted': {
      const { attempt, deliveryId, endpointId } = step.value
      if (attempt === undefined) return null
      return <AttemptDetails deliveryId={deliveryId} endpointId={endpointId} attempt={attempt} />
    }
    case 'conflictReported':
    case 'conflictResolved':
      return <ConflictDetails conflict={step.value} payment={timeline.transaction} />
    case 'holdDecided': {
      const { holdState, reason } = step.value
      return (
        <Facts
          facts={[
            ['Decision', nameOf(HOLD_STATES, holdState)],
            ['Reason', reason],
          ]}
        />
      )
    }
    case 'paymentSettled':
      return <SettledFacts settled={step.value} />
    case 'paymentReversed':
      return <ReversedFacts reversed={step.value} />
    default:
      return null
  }
}

function RecordedFacts({
  recorded: { recorder, connector, variance, held },
  by,
  id,
}: {
  readonly recorded: PaymentRecorded
  readonly by: string
  readonly id: string
}) {
  return (
    <Facts
      facts={[
        ['Transaction', <Id key="id" text={id} charsMax={34} />],
        ['Recorded', by],
        ['Credential', recorder?.id && <Id text={recorder.id} charsMax={34} />],
        ['Bank', connector === 'live' ? 'the real bank' : 'the sandbox'],
        ['Variance', nameOf(VARIANCES, variance)],
        ['Held', held ? 'It waits for a decision of the business' : ''],
      ]}
    />
  )
}

function EventFacts({ event }: { readonly event: EventNumbered }) {
  return (
    <Facts
      facts={[
        [
          'Event',
          <PageLink key="event" to={`/events/${event.eventId}`}>
            {event.eventId}
          </PageLink>,
        ],
        ['Kind', <code key="kind">{event.kind}</code>],
        ['In the log', `#${count(event.position)}`],
        ['Of the business', `#${count(event.businessSequence)}`],
        ['Occurred', <Time key="occurred" at={event.occurredAt} />],
      ]}
    />
  )
}

function SettledFacts({ settled }: { readonly settled: PaymentSettled }) {
  const { settlementId, amountMinor, feeMinor, splitsMinor } = settled
  return (
    <Facts
      facts={[
        [
          'Settlement',
          <PageLink key="settlement" to={`/settlement/${settlementId}`}>
            {settlementId}
          </PageLink>,
        ],
        ['Payment', naira(amountMinor)],
        ['Fee', naira(-feeMinor)],
        ['Shares', splitsMinor > 0n ? naira(-splitsMinor) : ''],
        ['Available', naira(amountMinor - feeMinor - splitsMinor)],
      ]}
    />
  )
}

function ReversedFacts({ reversed }: { readonly reversed: PaymentReversed }) {
  const { reason, actorKind, actorId, actorName, auditNumber } = reversed
  return (
    <Facts
      facts={[
        ['Reason', reason],
        ['By', actorName === '' ? 'the bank' : `${actorName} (${actorKind} ${actorId})`],
        ['Audit entry', auditNumber > 0n ? `#${auditNumber}` : ''],
      ]}
    />
  )
}

/** What became of a notification, and its body for those who may see it. */
function NotificationDetails({ notified }: { readonly notified: BankNotified }) {
  const { notificationId, result, cause, tries } = notified
  return (
    <>
      <Facts
        facts={[
          ['Result', NOTIFICATION_RESULTS[result] ?? words(result)],
          ['Cause', cause],
          ['Processed', tries === 1 ? 'once' : `${tries} times`],
          ['Notification', notificationId && <Id text={notificationId} charsMax={30} />],
        ]}
      />
      {notificationId !== '' && <RawNotification notificationId={notificationId} />}
    </>
  )
}

const NOTIFICATION_RESULTS: Readonly<Record<string, string>> = {
  RECORDED: 'The bank confirmed the payment, or its signature covers it; it was recorded',
  DUPLICATE: 'The payment was recorded already',
  UNMATCHED: 'No open account has the number',
  UNCONFIRMED: 'The bank did not confirm the payment',
  MANUAL_REVIEW: 'It is held for manual review',
  RETRY: 'It is processed again by itself',
  IGNORED: 'It reports no payment that concerns us',
}

/** It has names and account numbers: showing it is written to the audit log. */
function RawNotification({ notificationId }: { readonly notificationId: string }) {
  const mayShow = useMay()(NotificationService.method.showNotification)
  const { mutate, data, error, isPending } = useMutation(
    NotificationService.method.showNotification,
  )
  if (!mayShow) return null
  if (data) return <Code title="Notification as received" text={data.body} />
  return (
    <div className="reveal">
      {error && <Failure error={error} />}
      <Button busy={isPending} onClick={() => mutate({ notificationId })}>
        Show the notification
      </Button>
      <span className="faint">
        It has names and account numbers. The audit log states who saw it.
      </span>
    </div>
  )
}

/** What is recorded beside what was reported, with the cells that differ marked. */
function ConflictDetails({
  conflict,
  payment,
}: {
  readonly conflict: PaymentConflict
  readonly payment: Transaction | undefined
}) {
  const rows: readonly (readonly [string, string, string])[] = [
    ['Amount', naira(payment?.amountMinor ?? 0n), naira(conflict.amountMinor)],
    ['Account', payment?.accountNumber ?? '', conflict.accountNumber],
    ['Status', statusName(payment), nameOf(STATUSES, conflict.status)],
  ]
  return (
    <>
      <table className="sides" aria-label="Recorded and reported">
        <thead>
          <tr>
            <td />
            <th scope="col">Recorded</th>
            <th scope="col">Reported</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, ours, theirs]) => (
            <tr key={name} className={ours === theirs ? undefined : 'differs'}>
              <th scope="row">{name}</th>
              <td>{ours}</td>
              <td>
                {theirs}
                {ours !== theirs && <span className="hidden"> differs</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Id text={conflict.id} charsMax={30} />
      <Action
        method={ReconciliationService.method.resolvePaymentConflict}
        label="Resolve"
        isOffered={conflict.resolvedAt === undefined}
        says="Ends the manual review of this report. The recorded payment stays as it is."
        reason="How and why"
        request={(note) => ({ conflictId: conflict.id, note })}
        target={conflict.id}
      />
    </>
  )
}

function statusName(payment: Transaction | undefined): string {
  return payment ? nameOf(STATUSES, payment.status) : ''
}

/** An attempt of a delivery: what was sent, and what the receiver answered. */
function AttemptDetails({
  deliveryId,
  endpointId,
  attempt,
}: {
  readonly deliveryId: string
  readonly endpointId: string
  readonly attempt: Attempt
}) {
  const read = useQuery(WebhookService.method.getDelivery, { deliveryId }, { staleTime: 60_000 })
  const status = attempt.statusCode > 0 ? `HTTP ${attempt.statusCode}` : 'none'
  return (
    <>
      <Facts
        facts={[
          ['Response', `${status}, after ${attempt.latencyMs} ms`],
          ['Error', attempt.error],
          [
            'Delivery',
            <PageLink key="delivery" to={`/webhooks/deliveries/${deliveryId}`}>
              {deliveryId}
            </PageLink>,
          ],
          ['Endpoint', <Id key="endpoint" text={endpointId} charsMax={30} />],
        ]}
      />
      {attempt.responseBody !== '' && <Code title="Response body" text={attempt.responseBody} />}
      {read.isPending && <Waiting rows={4} />}
      {read.error && <Failure error={read.error} onRetry={() => void read.refetch()} />}
      {read.data && <RequestDetails request={read.data.request} />}
    </>
  )
}

/** The request with its headers; absent once the event or the endpoint is deleted. */
function RequestDetails({ request }: { readonly request: WebhookRequest | undefined }) {
  if (request === undefined) {
    return <p className="faint">The event or the endpoint was deleted, and the request with it.</p>
  }
  const { method, url, headers, body } = request
  return (
    <div className="request">
      <header>
        <code>
          {method} {url}
        </code>
        <CopyButton
          text={curlOfWebhook(request)}
          what="the request as a curl command"
          label="Copy as curl"
        />
      </header>
      <table className="headers" aria-label="Headers of the request">
        <tbody>
          {headers.map((header) => (
            <tr key={header.name}>
              <th scope="row">
                <code>{header.name}</code>
              </th>
              <td>
                <HeaderValue header={header} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Code title="Request body" text={body} />
    </div>
  )
}

const OMISSION_TEXTS: Readonly<Record<number, string>> = {
  [HeaderOmission.SECRET]: 'secret',
  [HeaderOmission.BY_ATTEMPT]: 'differs by attempt, and is not stored',
}

function HeaderValue({ header: { value, omission } }: { readonly header: WebhookHeader }) {
  const why = OMISSION_TEXTS[omission]
  return why === undefined ? <code>{value}</code> : <span className="faint">{why}</span>
}
