import { create, type DescMethod } from '@bufbuild/protobuf'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { NotificationService } from '../../../gen/inflow/notification/v1/notification_service_pb.ts'
import {
  type ReviewCount as CountMessage,
  type ReviewItem as ItemMessage,
  ReviewKind as KindMessage,
  ReviewCountSchema,
  ReviewItemSchema,
} from '../../../gen/inflow/overview/v1/review_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { fromBankCode } from '../../banks/message.ts'
import { toTimestamp } from '../../protobuf/timestamp.ts'
import { REVIEW_KINDS, type ReviewAction, type ReviewItem, type ReviewKind } from './item.ts'
import type { ReviewCount } from './list-review-items.ts'

const ACTIONS: Readonly<Record<ReviewAction, DescMethod>> = {
  assign: ReconciliationService.method.assignUnmatchedPayment,
  return: ReconciliationService.method.returnUnmatchedPayment,
  'retry notification': NotificationService.method.retryNotification,
  'resolve notification': NotificationService.method.resolveNotification,
  'resolve conflict': ReconciliationService.method.resolvePaymentConflict,
  'resolve account': AccountService.method.resolveAccount,
  'accept payment': HeldPaymentService.method.acceptPayment,
  'return payment': HeldPaymentService.method.returnPayment,
  'complete return': HeldPaymentService.method.completeReturn,
  'update endpoint': WebhookService.method.updateEndpoint,
  'delete endpoint': WebhookService.method.deleteEndpoint,
  settle: SettlementService.method.settle,
}

export function toItemMessage(item: ReviewItem): ItemMessage {
  const { key: _, kind, sinceMs, bank, actions, ...rest } = item
  return create(ReviewItemSchema, {
    ...rest,
    kind: KindMessage[kind],
    since: toTimestamp(sinceMs),
    ...(bank && { bank: fromBankCode(bank) }),
    actions: actions.map((action) => {
      const { parent, name } = ACTIONS[action]
      return `${parent.typeName}/${name}`
    }),
  })
}

export function toCountMessage({ kind, count, more }: ReviewCount): CountMessage {
  return create(ReviewCountSchema, { kind: KindMessage[kind], count, more })
}

/** @param kinds validated: none is unspecified */
export function toReviewKinds(kinds: readonly KindMessage[]): readonly ReviewKind[] {
  return REVIEW_KINDS.filter((kind) => kinds.includes(KindMessage[kind]))
}
