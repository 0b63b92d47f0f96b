import type { DescMethod } from '@bufbuild/protobuf'
import type { ComponentType } from 'react'
import { AccountService } from '../../../../gen/browser/inflow/account/v1/account_service_pb.ts'
import { NotificationService } from '../../../../gen/browser/inflow/notification/v1/notification_service_pb.ts'
import { ReconciliationService } from '../../../../gen/browser/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../../../gen/browser/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../../../gen/browser/inflow/transaction/v1/held_payment_service_pb.ts'
import { Action } from '../../ui/controls/action.tsx'
import { Assign } from './assign.tsx'
import { type DecisionProps, ResolveOpening } from './resolve-opening.tsx'

/** What ends an item, or lets it go on. */
interface Decision {
  readonly method: DescMethod
  /** The key that presses it. */
  readonly key: 'a' | 'r'
  readonly label: string
  readonly Button: ComponentType<DecisionProps>
}

export const DECISIONS: readonly Decision[] = [
  {
    method: ReconciliationService.method.assignUnmatchedPayment,
    key: 'a',
    label: 'Assign',
    Button: Assign,
  },
  {
    method: ReconciliationService.method.returnUnmatchedPayment,
    key: 'r',
    label: 'Return',
    Button: ({ item, onDecided }) => (
      <Action
        method={ReconciliationService.method.returnUnmatchedPayment}
        label="Mark as returned"
        says="The bank moves the money itself: this records that it was sent back to its payer."
        reason="How and why it was returned"
        request={(note) => ({ unmatchedPaymentId: item.id, note })}
        target={item.id}
        onClosed={onDecided}
      />
    ),
  },
  {
    method: NotificationService.method.retryNotification,
    key: 'a',
    label: 'Process again',
    Button: ({ item, onDecided }) => (
      <Action
        method={NotificationService.method.retryNotification}
        label="Process again"
        kind="primary"
        says="The bank is asked to confirm the payment within seconds, and it is recorded if it does. It may be held again."
        request={() => ({ notificationId: item.id })}
        target={item.id}
        onClosed={onDecided}
      />
    ),
  },
  {
    method: NotificationService.method.resolveNotification,
    key: 'r',
    label: 'Resolve',
    Button: ({ item, onDecided }) => (
      <Action
        method={NotificationService.method.resolveNotification}
        label="Resolve"
        says="Ends its review. Nothing of it is recorded."
        reason="How and why"
        request={(note) => ({ notificationId: item.id, note })}
        target={item.id}
        onClosed={onDecided}
      />
    ),
  },
  {
    method: ReconciliationService.method.resolvePaymentConflict,
    key: 'a',
    label: 'Resolve',
    Button: ({ item, onDecided }) => (
      <Action
        method={ReconciliationService.method.resolvePaymentConflict}
        label="Resolve"
        kind="primary"
        says="Ends the review of the report. The recorded payment does not change."
        reason="How and why"
        request={(note) => ({ conflictId: item.id, note })}
        target={item.id}
        onClosed={onDecided}
      />
    ),
  },
  {
    method: AccountService.method.resolveAccount,
    key: 'a',
    label: 'Resolve the opening',
    Button: ResolveOpening,
  },
  {
    method: HeldPaymentService.method.acceptPayment,
    key: 'a',
    label: 'Accept',
    Button: ({ item, onDecided }) => (
      <Action
        method={HeldPaymentService.method.acceptPayment}
        label="Accept"
        kind="primary"
        says="The payment counts as any other: it is added to the pending balance, and settled."
        request={() => ({ transactionId: item.id })}
        target={item.id}
        onClosed={onDecided}
      />
    ),
  },
  {
    method: HeldPaymentService.method.returnPayment,
    key: 'r',
    label: 'Return',
    Button: ({ item, onDecided }) => (
      <Action
        method={HeldPaymentService.method.returnPayment}
        label="Return"
        says="Requests that the bank sends the money back to its payer. An operator then completes the return."
        reason="Why it is returned"
        request={(reason) => ({ transactionId: item.id, reason })}
        target={item.id}
        onClosed={onDecided}
      />
    ),
  },
  {
    method: HeldPaymentService.method.completeReturn,
    key: 'a',
    label: 'Complete the return',
    Button: ({ item, onDecided }) => (
      <Action
        method={HeldPaymentService.method.completeReturn}
        label="Complete the return"
        kind="primary"
        says="Records that the bank sent the money back to its payer: the payment is reversed."
        reason="How it was returned"
        request={(note) => ({ transactionId: item.id, note })}
        target={item.id}
        onClosed={onDecided}
      />
    ),
  },
  {
    method: SettlementService.method.settle,
    key: 'a',
    label: 'Settle',
    Button: ({ item, onDecided }) => (
      <Action
        method={SettlementService.method.settle}
        label="Settle now"
        says="Settles the payments of the business that are due."
        request={() => ({ businessId: item.businessId, test: !item.live })}
        target=""
        onClosed={onDecided}
      />
    ),
  },
]
