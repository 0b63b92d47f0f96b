import { useInfiniteQuery, useMutation } from '@connectrpc/connect-query'
import {
  type Notification,
  NotificationResult,
} from '../../../../gen/inflow/notification/v1/notification_pb.ts'
import { NotificationService } from '../../../../gen/inflow/notification/v1/notification_service_pb.ts'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { enumWords } from '../../format/ids.ts'
import { useMay } from '../../session/session.tsx'
import { Button } from '../../ui/controls/button.tsx'
import { Code } from '../../ui/controls/code.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Facts } from '../../ui/page.tsx'
import { Id, Money, Time } from '../../ui/values.tsx'
import { useListed } from './use-listed.ts'

const PAGE_SIZE = 200

/** A held notification: what could be read of it, why it is held, and, on request, its body. */
export function NotificationDetails({ item: { id, bank } }: { readonly item: ReviewItem }) {
  const pages = useInfiniteQuery(
    NotificationService.method.listHeldNotifications,
    { bank, pageSize: PAGE_SIZE, pageToken: '' },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
    },
  )
  const { found, isPending, error } = useListed(pages, ({ notifications }) =>
    notifications.find((notification) => notification.id === id),
  )
  if (error) return <Failure error={error} />
  if (isPending) return <Waiting rows={3} />
  if (found === undefined) return <p className="soft">It is not held any more.</p>
  return (
    <>
      <Known notification={found} />
      <Body notificationId={id} />
    </>
  )
}

function Known({ notification }: { readonly notification: Notification }) {
  const { accountNumber, sessionId, amountMinor, cause, result, tries, receivedAt } = notification
  return (
    <Facts
      facts={[
        ['Cause', cause],
        ['Result', enumWords(NotificationResult, result)],
        ['Received', <Time key="received" at={receivedAt} />],
        ['Processed', tries === 1 ? 'once' : `${tries} times`],
        ['Amount', amountMinor > 0n ? <Money key="amount" minor={amountMinor} /> : 'not readable'],
        ['Account', accountNumber && <Id key="account" text={accountNumber} />],
        ['Session', sessionId && <Id key="session" text={sessionId} charsMax={36} />],
      ]}
    />
  )
}

/** The body, which has names and account numbers: the audit log states who saw it, so it is shown on request. */
function Body({ notificationId }: { readonly notificationId: string }) {
  const show = useMutation(NotificationService.method.showNotification)
  const mayShow = useMay()(NotificationService.method.showNotification)
  if (!mayShow) return null
  if (show.data) return <Code title="What the bank sent" text={show.data.body} />
  return (
    <div className="reveal">
      <Button busy={show.isPending} onClick={() => show.mutate({ notificationId })}>
        Show what the bank sent
      </Button>
      <span className="faint">The audit log states that you saw it.</span>
      {show.error && <Failure error={show.error} />}
    </div>
  )
}
