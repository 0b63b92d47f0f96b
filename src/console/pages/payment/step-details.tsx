import type {
  EventNumbered,
  PaymentRecorded,
  PaymentReversed,
  PaymentSettled,
  Timeline,
} from '../../../../gen/inflow/overview/v1/timeline_pb.ts'
import { count, naira } from '../../format/money.ts'
import { HOLD_STATES, nameOf, VARIANCES } from '../../format/payments.ts'
import { PageLink } from '../../ui/href.tsx'
import { Facts } from '../../ui/page.tsx'
import { Id, Time } from '../../ui/values.tsx'
import { ConflictDetails } from './conflict-details.tsx'
import { AttemptDetails } from './delivery-details.tsx'
import { NotificationDetails } from './notification-details.tsx'
import type { TimelineRow } from './timeline-rows.ts'

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
