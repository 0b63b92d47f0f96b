import { useParams } from 'wouter'
import { useShowObject } from '../../session/shown-object.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Page } from '../../ui/page.tsx'
import { Id } from '../../ui/values.tsx'
import '../../styles/payment.css'
import { PaymentSummary } from './payment-summary.tsx'
import { TimelineList } from './timeline-list.tsx'
import { useTimeline } from './use-timeline.ts'

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
