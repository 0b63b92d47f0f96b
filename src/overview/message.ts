import { create, type DescMethod, type MessageInitShape } from '@bufbuild/protobuf'
import { AccountStatus } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { NotificationState } from '../../gen/inflow/notification/v1/notification_pb.ts'
import { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import {
  type BankState as BankMessage,
  BankStateSchema,
  BusinessStateSchema,
  type Health as HealthMessage,
  HealthSchema,
  HourFiguresSchema,
  type HourFigures as HourMessage,
  WaitingSchema,
} from '../../gen/inflow/overview/v1/figures_pb.ts'
import type { GetOverviewResponseSchema } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import {
  type ReviewCount as CountMessage,
  type ReviewItem as ItemMessage,
  ReviewKind as KindMessage,
  ReviewCountSchema,
  ReviewItemSchema,
} from '../../gen/inflow/overview/v1/review_pb.ts'
import {
  type ExpectedStepSchema,
  type Step,
  StepSchema,
  type Timeline,
  TimelineSchema,
} from '../../gen/inflow/overview/v1/timeline_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { fromBankCode } from '../banks/message.ts'
import { assert } from '../core/errors.ts'
import { payoutShown, toPayoutMessage } from '../payouts/message.ts'
import { toInt64, toOptionalTimestamp, toTimestamp } from '../protobuf/values.ts'
import { toRunMessage } from '../reconciliation/message.ts'
import {
  toConflictMessage,
  toRecorderMessage,
  toTransactionMessage,
} from '../transactions/message.ts'
import type { StoredAttempt } from '../webhooks/deliveries/delivery.ts'
import { toAttemptMessage, toDeliveryMessage } from '../webhooks/message.ts'
import type { ReviewCount } from './list-review-items.ts'
import type { HourFigures } from './read-hours.ts'
import type { BankState, Health, Overview } from './read-overview.ts'
import { ATTEMPTS_MAX, type PaymentTimeline } from './read-timeline.ts'
import {
  REVIEW_KINDS,
  type ReviewAction,
  type ReviewItem,
  type ReviewKind,
  type ReviewNote,
} from './review-items.ts'

/** The limit for all response bodies together: a gRPC message is at most 4 MiB. */
const BODY_BYTES_MAX = 1024 ** 2

/** @param isOperator whether the caller may see what only operators see: the reports of banks, and the recorders */
export function toTimelineMessage(found: PaymentTimeline, isOperator: boolean): Timeline {
  const { transaction, settlesAtMs } = found
  const recorder = toRecorderMessage(transaction.recordedBy, isOperator)
  const message = toTransactionMessage(transaction, { settlesAtMs, recorder })
  const { steps: attempts, isCut: bodiesCut } = attemptSteps(found)
  const steps = [
    ...notificationSteps(found, isOperator),
    recordedStep(found, isOperator),
    ...eventSteps(found),
    ...attempts,
    ...(isOperator ? conflictSteps(found) : []),
    ...decisionSteps(found),
    ...settlementSteps(found),
    ...reversalSteps(found),
    ...refundSteps(found, isOperator),
  ]
  return create(TimelineSchema, {
    transaction: message,
    accountId: found.accountId,
    postings: found.postings.map(({ postedAtMs, settlementId, ...posting }) => ({
      ...posting,
      postedAt: toTimestamp(postedAtMs),
      settlementId: settlementId ?? '',
    })),
    // The sort is stable: steps of the same time keep their order.
    steps: steps.sort((a, b) => timeOf(a) - timeOf(b)),
    expectedSteps: expectedSteps(found),
    deliveries: found.deliveries.map(({ delivery, attempts: shown }) => ({
      delivery: toDeliveryMessage(withoutBody(delivery)),
      endpointUrl: delivery.endpointUrl,
      attemptsTruncated: delivery.attempts > shown.length && shown.length === ATTEMPTS_MAX,
    })),
    truncated: found.isCut || bodiesCut,
  })
}

type StepOf = NonNullable<MessageInitShape<typeof StepSchema>['step']>

const toStep = (atMs: number, step: StepOf): Step =>
  create(StepSchema, { at: toTimestamp(atMs), step })

const timeOf = ({ at }: { at?: Step['at'] }): number =>
  Number(at?.seconds ?? 0n) * 1000 + (at?.nanos ?? 0) / 1e6

function notificationSteps({ notifications }: PaymentTimeline, isOperator: boolean): Step[] {
  return notifications.map(({ id, receivedAtMs, state, outcome, cause, tries }) =>
    toStep(receivedAtMs, {
      case: 'bankNotified',
      value: {
        state: NotificationState[state],
        result: outcome,
        tries,
        ...(isOperator && { notificationId: id, cause }),
      },
    }),
  )
}

function recordedStep({ transaction, connector }: PaymentTimeline, isOperator: boolean): Step {
  const { createdAtMs, recordedBy, variance } = transaction
  return toStep(createdAtMs, {
    case: 'paymentRecorded',
    value: {
      recorder: toRecorderMessage(recordedBy, isOperator),
      connector,
      variance: toTransactionMessage(transaction).variance,
      held: variance?.hold !== undefined,
    },
  })
}

function eventSteps({ events }: PaymentTimeline): Step[] {
  return events.map(({ loggedAtMs, occurredAtMs, ...event }) =>
    toStep(loggedAtMs, {
      case: 'eventNumbered',
      value: { ...event, occurredAt: toTimestamp(occurredAtMs) },
    }),
  )
}

/** The newest attempts keep their bodies. */
function attemptSteps({ deliveries }: PaymentTimeline) {
  let bytesLeft = BODY_BYTES_MAX
  let isCut = false
  const all = deliveries
    .flatMap(({ delivery, attempts }) => attempts.map((attempt) => ({ delivery, attempt })))
    .sort((a, b) => b.attempt.startedAtMs - a.attempt.startedAtMs)
  const steps = all.map(({ delivery: { id: deliveryId, endpointId }, attempt }) => {
    bytesLeft -= Buffer.byteLength(attempt.responseBody)
    if (bytesLeft < 0) isCut = true
    const shown = bytesLeft < 0 ? { ...attempt, responseBody: '' } : attempt
    const value = { deliveryId, endpointId, attempt: toAttemptMessage(shown) }
    return toStep(attempt.startedAtMs, { case: 'deliveryAttempted', value })
  })
  return { steps: steps.reverse(), isCut }
}

/** Removes the body of the latest attempt, because the step of that attempt contains it. */
function withoutBody<Delivery extends { readonly latestAttempt: StoredAttempt | null }>(
  delivery: Delivery,
): Delivery {
  const { latestAttempt } = delivery
  return { ...delivery, latestAttempt: latestAttempt && { ...latestAttempt, responseBody: '' } }
}

function conflictSteps({ conflicts }: PaymentTimeline): Step[] {
  return conflicts.flatMap((conflict) => {
    const value = toConflictMessage(conflict)
    const reported = toStep(conflict.createdAt.getTime(), { case: 'conflictReported', value })
    if (conflict.resolvedAtMs === undefined) return [reported]
    return [reported, toStep(conflict.resolvedAtMs, { case: 'conflictResolved', value })]
  })
}

function decisionSteps({ transaction }: PaymentTimeline): Step[] {
  const { variance } = transaction
  if (variance?.decidedAtMs === undefined) return []
  const { holdState } = toTransactionMessage(transaction)
  const value = { holdState, reason: variance.returnReason }
  return [toStep(variance.decidedAtMs, { case: 'holdDecided', value })]
}

function settlementSteps({ postings }: PaymentTimeline): Step[] {
  const amountOf = (kind: string) =>
    postings.find((posting) => posting.kind === kind)?.amountMinor ?? 0n
  return postings
    .filter(({ kind }) => kind === 'settlement')
    .map(({ postedAtMs, amountMinor, settlementId = '' }) => {
      const feeMinor = amountOf('fee')
      const splitsMinor = amountOf('split')
      const value = { settlementId, amountMinor, feeMinor, splitsMinor }
      return toStep(postedAtMs, { case: 'paymentSettled', value })
    })
}

function reversalSteps({ transaction: { reversal }, reversedBy }: PaymentTimeline): Step[] {
  if (reversal === undefined) return []
  const { kind = '', id = '', name = '', number = 0n } = reversedBy ?? {}
  const actor = { actorKind: kind, actorId: id, actorName: name, auditNumber: number }
  const value = { reason: reversal.reason, ...actor }
  return [toStep(reversal.reversedAtMs, { case: 'paymentReversed', value })]
}

function refundSteps({ refunds }: PaymentTimeline, isOperator: boolean): Step[] {
  return refunds.flatMap((refund) => {
    const value = toPayoutMessage(isOperator ? refund : payoutShown(refund, ''))
    const requested = toStep(refund.createdAtMs, { case: 'refundRequested', value })
    if (refund.completedAtMs === undefined) return [requested]
    return [requested, toStep(refund.completedAtMs, { case: 'refundCompleted', value })]
  })
}

function expectedSteps({ deliveries, settlesAtMs }: PaymentTimeline) {
  const expected: { readonly atMs: number; readonly step: ExpectedOf }[] = deliveries.flatMap(
    ({ delivery: { id: value, dueAtMs } }) => {
      if (dueAtMs === null) return []
      return [{ atMs: dueAtMs, step: { case: 'nextAttemptDeliveryId', value } }]
    },
  )
  if (settlesAtMs !== undefined) {
    expected.push({ atMs: settlesAtMs, step: { case: 'settlement', value: true } })
  }
  return expected
    .sort((a, b) => a.atMs - b.atMs)
    .map(({ atMs, step }) => ({ dueAt: toTimestamp(atMs), step }))
}

type ExpectedOf = NonNullable<MessageInitShape<typeof ExpectedStepSchema>['step']>

export function toOverviewMessage(
  overview: Overview,
): MessageInitShape<typeof GetOverviewResponseSchema> {
  const { atMs, day, weekBefore, review, banks, health, business } = overview
  return {
    at: toTimestamp(atMs),
    hours: day.hours.map(toHourMessage),
    weekBefore: weekBefore.hours.map(toHourMessage),
    total: toHourMessage(day.total),
    weekBeforeTotal: toHourMessage(weekBefore.total),
    review: review.map(toCountMessage),
    waiting: toWaitingMessage(overview),
    banks: banks.map(toBankMessage),
    ...(health && { health: toHealthMessage(health) }),
    ...(business && { business: toBusinessMessage(business) }),
  }
}

function toBusinessMessage(business: NonNullable<Overview['business']>) {
  const { availableMinor, pendingMinor, endpoints, failing, disabled } = business
  return create(BusinessStateSchema, {
    availableMinor: toInt64(availableMinor),
    pendingMinor: toInt64(pendingMinor),
    endpoints,
    failingEndpoints: failing,
    disabledEndpoints: disabled,
  })
}

function toHourMessage(hour: HourFigures): HourMessage {
  const { startsAtMs, attempts, delivered, failed, delayP95Ms, ...payments } = hour
  return create(HourFiguresSchema, {
    ...payments,
    amountMinor: toInt64(payments.amountMinor),
    reversedMinor: toInt64(payments.reversedMinor),
    startsAt: toTimestamp(startsAtMs),
    attempts: BigInt(attempts),
    delivered: BigInt(delivered),
    failed: BigInt(failed),
    delayP95Ms: BigInt(delayP95Ms),
  })
}

function toWaitingMessage({ atMs, waiting }: Overview) {
  const { deliveries, oldestDueAtMs, oldestUnsettledAtMs, nextSettlementAtMs } = waiting
  const lagMs = nextSettlementAtMs === undefined ? 0 : Math.max(0, atMs - nextSettlementAtMs)
  return create(WaitingSchema, {
    dueDeliveries: deliveries,
    oldestDeliveryDueAt: toOptionalTimestamp(oldestDueAtMs),
    oldestUnsettledAt: toOptionalTimestamp(oldestUnsettledAtMs),
    nextSettlementAt: toOptionalTimestamp(nextSettlementAtMs),
    settlementLagSeconds: BigInt(Math.floor(lagMs / 1_000)),
  })
}

function toBankMessage(state: BankState): BankMessage {
  return create(BankStateSchema, {
    ...state,
    bank: fromBankCode(state.bank),
    breakerSince: toOptionalTimestamp(state.breakerSinceMs),
    lastNotificationAt: toOptionalTimestamp(state.lastNotificationAtMs),
    lastPaymentAt: toOptionalTimestamp(state.lastPaymentAtMs),
    reconciliationRuns: state.runs.map(toRunMessage),
  })
}

function toHealthMessage({ notReady, standbys, sequencerLagMs, ...health }: Health): HealthMessage {
  return create(HealthSchema, {
    ...health,
    notReady: [...notReady],
    sequencerLagMs: BigInt(sequencerLagMs),
    standbys: standbys.map(({ replayLagMs, ...standby }) => ({
      ...standby,
      replayLagMs: BigInt(Math.round(replayLagMs)),
    })),
    version: packageJson.version,
  })
}

export const ACTIONS: Readonly<Record<ReviewAction, DescMethod>> = {
  assign: ReconciliationService.method.assignUnmatchedPayment,
  refund: PayoutService.method.refundUnmatchedPayment,
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
  'approve payout': PayoutService.method.approvePayout,
  'reject payout': PayoutService.method.rejectPayout,
  'resolve payout': PayoutService.method.resolvePayout,
  'resolve discrepancy': PayoutService.method.resolvePayoutDiscrepancy,
}

export function toItemMessage(item: ReviewItem): ItemMessage {
  const { key: _, accountOf: _of, kind, sinceMs, bank, actions, account, noted, ...rest } = item
  return create(ReviewItemSchema, {
    ...rest,
    kind: KindMessage[kind],
    since: toTimestamp(sinceMs),
    ...(bank && { bank: fromBankCode(bank) }),
    ...(account && { account: { ...account, status: AccountStatus[account.status] } }),
    ...toNoteMessage(noted),
    actions: actions.map((action) => {
      const { parent, name } = ACTIONS[action]
      return `${parent.typeName}/${name}`
    }),
  })
}

/** The fields that an item and the response of its update have in common. */
export function toNoteMessage(noted: ReviewNote | undefined) {
  if (noted === undefined) return {}
  const { notedAtMs, ...texts } = noted
  return { ...texts, notedAt: toTimestamp(notedAtMs) }
}

export function toCountMessage({ kind, count, more }: ReviewCount): CountMessage {
  return create(ReviewCountSchema, { kind: KindMessage[kind], count, more })
}

/** @param kinds validated: none is unspecified */
export function toReviewKinds(kinds: readonly KindMessage[]): readonly ReviewKind[] {
  return REVIEW_KINDS.filter((kind) => kinds.includes(KindMessage[kind]))
}

/** @param kind validated: it is not unspecified */
export function toReviewKind(kind: KindMessage): ReviewKind {
  const [found] = toReviewKinds([kind])
  assert(found, 'every kind of the contract is one of the review')
  return found
}
