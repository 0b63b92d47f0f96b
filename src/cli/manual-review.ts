import type { Command } from 'commander'
import { NotificationSchema } from '../../gen/inflow/notification/v1/notification_pb.ts'
import { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { columnsOf } from './columns.ts'
import { YES } from './confirm.ts'
import { fields } from './output.ts'
import { BUSINESS, PAGE, rpc } from './rpc-verb.ts'
import { TRANSACTION } from './transaction.ts'
import { addVerbs } from './verb.ts'

const UNMATCHED =
  'id, paidAt, bank, accountNumber, amountMinor, status, sessionId, payer.name=Payer'
const UNMATCHED_ID = '<unmatched-payment-id>  the payment, unm_…'

const UNMATCHED_HELP = `
  list: list unresolved unmatched payments, newest first
  --bank <code>  only this bank
  ${PAGE}
  Example: unmatched list --bank PALMPAY --limit 20

  assign: record an unmatched payment for an account; a repeat changes nothing
  ${BUSINESS}
  ${UNMATCHED_ID}
  --reference <reference>!  the account's reference (R-…) or the business's own
  --note <text>  the reason
  ${YES}
  Example: unmatched assign unm_01… --reference order-1 --note "the payer mistyped"

  return: record that a payment was returned outside Inflow; "refund unmatched" returns it by a payout
  ${UNMATCHED_ID}
  --note <text>!  how and why it was returned
  ${YES}
  Example: unmatched return unm_01… --note "sent back by the bank on 20 November"`

export function unmatched(noun: Command): void {
  addVerbs(noun, UNMATCHED_HELP, {
    list: rpc(ReconciliationService.method.listUnmatchedPayments, { shows: UNMATCHED }),
    assign: rpc(ReconciliationService.method.assignUnmatchedPayment, {
      confirms: ({ businessId, reference }) =>
        `It is credited to ${businessId}, account ${reference}, and the business is notified.`,
      shows: TRANSACTION,
    }),
    return: rpc(ReconciliationService.method.returnUnmatchedPayment, {
      confirms:
        'It is marked as returned outside Inflow, and can no longer be assigned. No money moves.',
      shows: `${UNMATCHED}, narration, resolution, resolvedAt, note`,
    }),
  })
}

const NOTIFICATIONS = 'id, receivedAt, bank, accountNumber, amountMinor, sessionId'
const NOTIFICATION = columnsOf(
  NotificationSchema,
  `${NOTIFICATIONS}, cause, state, result, tries, resolvedAt, note`,
)
const NOTIFICATION_ID = '<notification-id>  the notification, ntf_…'

const NOTIFICATION_HELP = `
  list: list the notifications in manual review, newest first
  --bank <code>  only this bank
  ${PAGE}
  Example: notification list --bank PROVIDUS --limit 20

  find: list stored notifications, newest first: of a payment, or of a period
  --bank <code>  only this bank
  --session <id>  only of the payment with this session id; needs --bank
  --result <result...>  only with these results
  --from <time>  received at this time or later
  --to <time>  received before this time
  ${PAGE}
  Example: notification find --bank 9PSB --session 090286261120100000123456789012

  show: show a stored notification with its body; the audit log states who saw it
  ${NOTIFICATION_ID}
  Example: notification show ntf_01…

  retry: have a held notification processed again within seconds; it may be held again
  ${NOTIFICATION_ID}
  Example: notification retry ntf_01…

  resolve: end the manual review of a notification; nothing is recorded
  ${NOTIFICATION_ID}
  --note <text>!  how and why it was resolved
  ${YES}
  Example: notification resolve ntf_01… --note "the bank reversed it on 20 November"`

export function notification(noun: Command): void {
  addVerbs(noun, NOTIFICATION_HELP, {
    list: rpc(NotificationService.method.listHeldNotifications, {
      shows: `${NOTIFICATIONS}, cause`,
    }),
    find: rpc(NotificationService.method.listNotifications, {
      shows: `${NOTIFICATIONS}, result, cause`,
    }),
    show: rpc(NotificationService.method.showNotification, {
      shows: (response) =>
        `${fields(response.notification, NOTIFICATION.list)}\n\n${response.body}`,
    }),
    retry: rpc(NotificationService.method.retryNotification, { shows: NOTIFICATION }),
    resolve: rpc(NotificationService.method.resolveNotification, {
      confirms: 'Its manual review ends, and no payment is recorded.',
      shows: NOTIFICATION,
    }),
  })
}

const CONFLICTS = `id, createdAt=Reported at, bank, sessionId, accountNumber, amountMinor,
  status, recordedAccountNumber, recordedAmountMinor`

const CONFLICT_HELP = `
  list: list unresolved reports that contradict recorded payments, newest first
  ${PAGE}
  Example: conflict list --limit 20

  resolve: end the manual review of a report; the recorded payment does not change
  <conflict-id>  the report, cfl_…
  --note <text>!  how and why it was resolved
  ${YES}
  Example: conflict resolve cfl_01… --note "the bank corrected its report"`

export function conflict(noun: Command): void {
  addVerbs(noun, CONFLICT_HELP, {
    list: rpc(ReconciliationService.method.listPaymentConflicts, { shows: CONFLICTS }),
    resolve: rpc(ReconciliationService.method.resolvePaymentConflict, {
      confirms: 'Its manual review ends, and the recorded payment stays as it is.',
      shows: `${CONFLICTS}, transactionId, businessId, resolvedAt, note`,
    }),
  })
}
