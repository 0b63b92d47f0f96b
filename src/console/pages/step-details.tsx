import { useMutation, useQuery } from '@connectrpc/connect-query'
import { NotificationService } from '../../../gen/inflow/notification/v1/notification_service_pb.ts'
import type { BankNotified, Step, Timeline } from '../../../gen/inflow/overview/v1/timeline_pb.ts'
import { PayoutStatusSchema } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import type { PaymentConflict } from '../../../gen/inflow/reconciliation/v1/payment_conflict_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import {
  HoldStateSchema,
  type Transaction,
  TransactionStatusSchema,
  VarianceSchema,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { enumLabel } from '../format/enums.ts'
import { words } from '../format/ids.ts'
import { count, naira } from '../format/money.ts'
import { useMay } from '../session/session.tsx'
import { Action } from '../ui/action.tsx'
import { Button, Code } from '../ui/button.tsx'
import { type Fact, Facts, Failure, Loaded } from '../ui/page.tsx'
import { Id, PageLink, Time } from '../ui/values.tsx'
import { RequestShown } from './deliveries.tsx'

interface StepDetailsProps {
  readonly step: Step['step']
  /** The recorder of the payment, in words. */
  readonly by: string
  readonly timeline: Timeline
}

export function StepDetails({ step, by, timeline: { transaction } }: StepDetailsProps) {
  switch (step.case) {
    case 'bankNotified':
      return <NotificationDetails notified={step.value} />
    case 'deliveryAttempted':
      return <AttemptDetails attempted={step.value} />
    case 'conflictReported':
    case 'conflictResolved':
      return <ConflictDetails conflict={step.value} payment={transaction} />
    default:
      return <Facts facts={factsOf(step, by, transaction?.id ?? '')} />
  }
}

const link = (to: string, id: string) => <PageLink to={`${to}/${id}`}>{id}</PageLink>

function factsOf(step: Step['step'], by: string, id: string): readonly Fact[] {
  switch (step.case) {
    case 'paymentRecorded': {
      const { recorder, connector, variance, held } = step.value
      return [
        ['Transaction', <Id key="id" text={id} charsMax={34} />],
        ['Recorded', by],
        ['Credential', recorder?.id && <Id text={recorder.id} charsMax={34} />],
        ['Bank', connector === 'live' ? 'the real bank' : 'the sandbox'],
        ['Variance', enumLabel(VarianceSchema, variance)],
        ['Held', held ? 'It waits for a decision of the business' : ''],
      ]
    }
    case 'eventNumbered': {
      const { eventId, kind, position, businessSequence, occurredAt } = step.value
      return [
        ['Event', link('/events', eventId)],
        ['Kind', <code key="kind">{kind}</code>],
        ['In the log', `#${count(position)}`],
        ['Of the business', `#${count(businessSequence)}`],
        ['Occurred', <Time key="occurred" at={occurredAt} />],
      ]
    }
    case 'holdDecided':
      return [
        ['Decision', enumLabel(HoldStateSchema, step.value.holdState)],
        ['Reason', step.value.reason],
      ]
    case 'paymentSettled': {
      const { settlementId, amountMinor, feeMinor, splitsMinor } = step.value
      return [
        ['Settlement', link('/settlement', settlementId)],
        ['Payment', naira(amountMinor)],
        ['Fee', naira(-feeMinor)],
        ['Shares', splitsMinor > 0n ? naira(-splitsMinor) : ''],
        ['Available', naira(amountMinor - feeMinor - splitsMinor)],
      ]
    }
    case 'paymentReversed': {
      const { reason, actorKind, actorId, actorName, auditNumber } = step.value
      return [
        ['Reason', reason],
        ['By', actorName === '' ? 'the bank' : `${actorName} (${actorKind} ${actorId})`],
        ['Audit entry', auditNumber > 0n ? `#${auditNumber}` : ''],
      ]
    }
    case 'refundRequested':
    case 'refundCompleted': {
      const { id: payoutId, beneficiary, status, requestedBy, detail } = step.value
      return [
        ['Payout', link('/payouts', payoutId)],
        ['To', `${beneficiary?.accountName}, ${beneficiary?.bankName}`],
        ['Status', enumLabel(PayoutStatusSchema, status)],
        ['Requested by', requestedBy],
        ['Detail', detail],
      ]
    }
    default:
      return []
  }
}

/** The result of a notification, and its body for callers who may see it. */
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
      {notificationId !== '' && <NotificationBody notificationId={notificationId} />}
    </>
  )
}

const NOTIFICATION_RESULTS: Readonly<Record<string, string>> = {
  RECORDED: 'The bank confirmed the payment, or its signature covers it; it was recorded',
  DUPLICATE: 'The payment was recorded already',
  UNMATCHED: 'No open account has the number',
  UNCONFIRMED: 'The bank did not confirm the payment',
  MANUAL_REVIEW: 'It is held for manual review',
  RETRY: 'It is processed again automatically',
  IGNORED: 'It reports no payment that concerns us',
}

/** The body of a notification contains names and account numbers, so showing it is recorded in the audit log. */
export function NotificationBody({ notificationId }: { readonly notificationId: string }) {
  const { showNotification } = NotificationService.method
  const mayShow = useMay()(showNotification)
  const { mutate, data, error, isPending } = useMutation(showNotification)
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

interface Sides {
  readonly conflict: PaymentConflict
  readonly payment: Transaction | undefined
}

/** The recorded and the reported payment side by side, with the action that ends the review of the report. */
function ConflictDetails({ conflict, payment }: Sides) {
  return (
    <>
      <RecordedAndReported
        rows={[
          ['Amount', naira(payment?.amountMinor ?? 0n), naira(conflict.amountMinor)],
          ['Account', payment?.accountNumber ?? '', conflict.accountNumber],
          ['Status', statusText(payment?.status), statusText(conflict.status)],
        ]}
      />
      <Id text={conflict.id} charsMax={30} />
      <Action
        method={ReconciliationService.method.resolvePaymentConflict}
        label="Resolve"
        isOffered={conflict.resolvedAt === undefined}
        says="Ends the manual review of this report. The recorded payment stays as it is."
        reason="How and why"
        request={{ conflictId: conflict.id }}
        target={conflict.id}
      />
    </>
  )
}

const statusText = (status = 0) => enumLabel(TransactionStatusSchema, status)

/** Shows both sides of a payment. Differences are marked, not by colour alone. */
export function RecordedAndReported({
  rows,
}: {
  readonly rows: readonly (readonly [fact: string, recorded: string, reported: string])[]
}) {
  return (
    <table className="sides" aria-label="Recorded and reported">
      <thead>
        <tr>
          <th scope="col">
            <span className="hidden">Fact</span>
          </th>
          <th scope="col">Recorded</th>
          <th scope="col">Reported</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, ours, theirs]) => (
          <tr key={name} className={ours === theirs ? undefined : 'differs'}>
            <th scope="row">{name}</th>
            <td>
              {ours !== theirs && '≠ '}
              {ours}
            </td>
            <td>
              {ours !== theirs && '≠ '}
              {theirs}
              {ours !== theirs && <span className="hidden"> differs</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

type Attempted = Extract<Step['step'], { case: 'deliveryAttempted' }>['value']

/** An attempt of a delivery: its request, and the response of the receiver. */
function AttemptDetails({ attempted }: { readonly attempted: Attempted }) {
  const { deliveryId, endpointId, attempt } = attempted
  const { getDelivery } = WebhookService.method
  const read = useQuery(getDelivery, { deliveryId }, { staleTime: 60_000 })
  if (attempt === undefined) return null
  const status = attempt.statusCode > 0 ? `HTTP ${attempt.statusCode}` : 'none'
  return (
    <>
      <Facts
        facts={[
          ['Response', `${status}, after ${attempt.latencyMs} ms`],
          ['Error', attempt.error],
          ['Delivery', link('/webhooks/deliveries', deliveryId)],
          ['Endpoint', <Id key="endpoint" text={endpointId} charsMax={30} />],
        ]}
      />
      {attempt.responseBody !== '' && <Code title="Response body" text={attempt.responseBody} />}
      <Loaded read={read} rows={4}>
        {({ request }) => <RequestShown request={request} />}
      </Loaded>
    </>
  )
}
