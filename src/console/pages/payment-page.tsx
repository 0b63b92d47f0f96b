import '../styles/payment.css'
import { useQuery } from '@connectrpc/connect-query'
import { useEffect, useRef } from 'react'
import { useParams } from 'wouter'
import type { Event } from '../../../gen/inflow/event/v1/event_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import type { Timeline } from '../../../gen/inflow/overview/v1/timeline_pb.ts'
import { msOf } from '../format/time.ts'
import { useEvents } from '../session/live.tsx'
import { useShowObject } from '../session/view-scope.tsx'
import { Failure, Page, Waiting } from '../ui/page.tsx'
import { Id } from '../ui/values.tsx'
import { PaymentSummary } from './payment-summary.tsx'
import { TimelineList } from './timeline.tsx'

/** One payment: everything that happened to it, and what is still to happen. */
export function PaymentPage() {
  const { id = '' } = useParams<{ id: string }>()
  const { data, error, refetch } = useTimeline(id)
  const timeline = data?.timeline
  const payment = timeline?.transaction
  useShowObject(payment)
  return (
    <Page title="Payment" actions={<Id text={id} charsMax={40} />}>
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <Waiting rows={10} />}
      {timeline && payment && (
        <div className="two-thirds">
          <section aria-label="Timeline">
            <TimelineList timeline={timeline} />
            {timeline.truncated && (
              <p className="faint">
                There is more than this shows; the pages of its deliveries have all attempts.
              </p>
            )}
          </section>
          <PaymentSummary timeline={timeline} payment={payment} />
        </div>
      )}
    </Page>
  )
}

/** Deliveries exist and are attempted soon after the event that they are of. */
const AFTER_EVENT_MS = 1_500

/** After the time at which an attempt was due. */
const AFTER_DUE_MS = 500
const OVERDUE_MS = 5_000
const ATTEMPT_WAIT_MAX_MS = 60_000

/**
 * Reads the timeline, and again when an event of the payment arrives. Attempts have no events: while one is due,
 * it is read again when that should have been made.
 */
function useTimeline(transactionId: string) {
  const read = useQuery(
    OverviewService.method.getTimeline,
    { transactionId },
    {
      refetchInterval: ({ state }) => nextReadMs(state.data?.timeline, Date.now()),
    },
  )
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  const timeline = read.data?.timeline
  useEvents((events, missed) => {
    if (!missed && !events.some((event) => concerns(event, transactionId, timeline))) return
    void read.refetch()
    clearTimeout(timer.current)
    timer.current = setTimeout(() => void read.refetch(), AFTER_EVENT_MS)
  })
  return read
}

/** Whether an event may have changed what the page shows. */
function concerns(
  { payload, businessId }: Event,
  id: string,
  shown: Timeline | undefined,
): boolean {
  switch (payload.case) {
    case 'transaction':
      return payload.value.id === id
    case 'paymentConflict':
      return payload.value.transactionId === id
    // A settlement does not list its payments.
    case 'settlement':
      return businessId === shown?.transaction?.businessId && !shown.transaction.settled
    default:
      return false
  }
}

/** @returns in how many milliseconds to read again; false: not until an event arrives */
function nextReadMs(timeline: Timeline | undefined, nowMs: number): number | false {
  const dues = (timeline?.expectedSteps ?? [])
    .filter(({ step }) => step.case === 'nextAttemptDeliveryId')
    .map(({ dueAt }) => msOf(dueAt) ?? 0)
  if (dues.length === 0) return false
  const leftMs = Math.min(...dues) - nowMs
  if (leftMs <= 0) return leftMs > -OVERDUE_MS ? AFTER_DUE_MS : OVERDUE_MS
  return Math.min(leftMs + AFTER_DUE_MS, ATTEMPT_WAIT_MAX_MS)
}
