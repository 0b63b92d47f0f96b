import type { DescMessage, DescMethod, DescMethodUnary, MessageInitShape } from '@bufbuild/protobuf'
import type { ComponentType } from 'react'
import { AccountService } from '../../../../gen/inflow/account/v1/account_service_pb.ts'
import { NotificationService } from '../../../../gen/inflow/notification/v1/notification_service_pb.ts'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { ReconciliationService } from '../../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { Action } from '../../ui/controls/action.tsx'
import type { ButtonProps } from '../../ui/controls/button.tsx'
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

interface Asked<Input extends DescMessage> {
  /** In the dialog; absent: as at the item. */
  readonly title?: string
  readonly kind?: ButtonProps['kind']
  /** What it will do, in a sentence. */
  readonly says: string
  /** The label of the field for the reason, if the contract wants one. */
  readonly reason?: string
  readonly request: (item: ReviewItem, reason: string) => MessageInitShape<Input>
  /** False: no audit entry names the item. */
  readonly hasEntry?: boolean
}

/** A decision that one question asks for. */
function ask<Input extends DescMessage, Output extends DescMessage>(
  method: DescMethodUnary<Input, Output>,
  key: Decision['key'],
  label: string,
  { title = label, request, hasEntry = true, ...asked }: Asked<Input>,
): Decision {
  const Button = ({ item, onDecided }: DecisionProps) => (
    <Action
      method={method}
      label={title}
      {...asked}
      request={(reason) => request(item, reason)}
      target={hasEntry ? item.id : ''}
      onClosed={onDecided}
    />
  )
  return { method, key, label, Button }
}

const { method: reconciliation } = ReconciliationService
const { method: notifications } = NotificationService
const { method: heldPayments } = HeldPaymentService

export const DECISIONS: readonly Decision[] = [
  { method: reconciliation.assignUnmatchedPayment, key: 'a', label: 'Assign', Button: Assign },
  ask(reconciliation.returnUnmatchedPayment, 'r', 'Return', {
    title: 'Mark as returned',
    says: 'The bank moves the money itself: this records that it was sent back to its payer.',
    reason: 'How and why it was returned',
    request: ({ id }, note) => ({ unmatchedPaymentId: id, note }),
  }),
  ask(notifications.retryNotification, 'a', 'Process again', {
    kind: 'primary',
    says: 'The bank is asked to confirm the payment within seconds, and it is recorded if it does. It may be held again.',
    request: ({ id }) => ({ notificationId: id }),
  }),
  ask(notifications.resolveNotification, 'r', 'Resolve', {
    says: 'Ends its review. Nothing of it is recorded.',
    reason: 'How and why',
    request: ({ id }, note) => ({ notificationId: id, note }),
  }),
  ask(reconciliation.resolvePaymentConflict, 'a', 'Resolve', {
    kind: 'primary',
    says: 'Ends the review of the report. The recorded payment does not change.',
    reason: 'How and why',
    request: ({ id }, note) => ({ conflictId: id, note }),
  }),
  {
    method: AccountService.method.resolveAccount,
    key: 'a',
    label: 'Resolve the opening',
    Button: ResolveOpening,
  },
  ask(heldPayments.acceptPayment, 'a', 'Accept', {
    kind: 'primary',
    says: 'The payment counts as any other: it is added to the pending balance, and settled.',
    request: ({ id }) => ({ transactionId: id }),
  }),
  ask(heldPayments.returnPayment, 'r', 'Return', {
    says: 'Requests that the bank sends the money back to its payer. An operator then completes the return.',
    reason: 'Why it is returned',
    request: ({ id }, reason) => ({ transactionId: id, reason }),
  }),
  ask(heldPayments.completeReturn, 'a', 'Complete the return', {
    kind: 'primary',
    says: 'Records that the bank sent the money back to its payer: the payment is reversed.',
    reason: 'How it was returned',
    request: ({ id }, note) => ({ transactionId: id, note }),
  }),
  ask(SettlementService.method.settle, 'a', 'Settle', {
    title: 'Settle now',
    says: 'Settles the payments of the business that are due.',
    request: ({ businessId, live }) => ({ businessId, test: !live }),
    hasEntry: false,
  }),
]
