import { useQuery } from '@connectrpc/connect-query'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { count } from '../../format/money.ts'
import { durationText } from '../../format/time.ts'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Facts } from '../../ui/page.tsx'
import { Time } from '../../ui/values.tsx'

/** How the deliveries to a failing endpoint went in the last day. */
export function EndpointDetails({ item: { id } }: { readonly item: ReviewItem }) {
  const read = useQuery(WebhookService.method.getEndpointStatistics, { endpointIds: [id] })
  if (read.error) return <Failure error={read.error} />
  if (read.isPending) return <Waiting rows={3} />
  const [statistics] = read.data.statistics
  if (statistics === undefined) return <p className="soft">It is deleted.</p>
  return (
    <Facts
      facts={[
        ['Delivered', `${count(statistics.deliveredCount)} of ${count(statistics.deliveryCount)}`],
        ['Failed', count(statistics.failedCount)],
        ['Pending', count(statistics.pendingCount)],
        [
          'Oldest pending',
          statistics.oldestPendingAt && <Time key="oldest" at={statistics.oldestPendingAt} />,
        ],
        [
          'Response time',
          statistics.attemptCount > 0n &&
            `${durationText(statistics.latencyP50Ms)}, 95 % within ${durationText(statistics.latencyP95Ms)}`,
        ],
        ['Counted since', <Time key="from" at={statistics.from} />],
      ]}
    />
  )
}
