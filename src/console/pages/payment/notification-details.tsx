import { useMutation } from '@connectrpc/connect-query'
import { NotificationService } from '../../../../gen/inflow/notification/v1/notification_service_pb.ts'
import type { BankNotified } from '../../../../gen/inflow/overview/v1/timeline_pb.ts'
import { words } from '../../format/ids.ts'
import { useMay } from '../../session/session.tsx'
import { Button } from '../../ui/controls/button.tsx'
import { Code } from '../../ui/controls/code.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Facts } from '../../ui/page.tsx'
import { Id } from '../../ui/values.tsx'

/** What became of a notification, and its body for those who may see it. */
export function NotificationDetails({ notified }: { readonly notified: BankNotified }) {
  const { notificationId, result, cause, tries } = notified
  return (
    <>
      <Facts
        facts={[
          ['Result', RESULTS[result] ?? words(result)],
          ['Cause', cause],
          ['Processed', tries === 1 ? 'once' : `${tries} times`],
          ['Notification', notificationId && <Id text={notificationId} charsMax={30} />],
        ]}
      />
      {notificationId !== '' && <RawNotification notificationId={notificationId} />}
    </>
  )
}

const RESULTS: Readonly<Record<string, string>> = {
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
