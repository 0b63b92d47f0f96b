import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { NotificationState } from '../../gen/inflow/notification/v1/notification_pb.ts'
import {
  type ExpectedStepSchema,
  type Step,
  StepSchema,
  type Timeline,
  TimelineSchema,
} from '../../gen/inflow/overview/v1/timeline_pb.ts'
import { toTimestamp } from '../protobuf/timestamp.ts'
import { toConflictMessage } from '../transactions/conflicts/message.ts'
import { toRecorderMessage, toTransactionMessage } from '../transactions/message.ts'
import type { StoredAttempt } from '../webhooks/deliveries/delivery.ts'
import { toAttemptMessage, toDeliveryMessage } from '../webhooks/message.ts'
import { ATTEMPTS_MAX, type PaymentTimeline } from './read-timeline.ts'

/** All response bodies together: a message of gRPC is at most 4 MiB. */
const BODY_BYTES_MAX = 1024 ** 2

/** @param isOperator whether the caller may see what concerns operators only: reports of banks, and recorders */
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
  ]
  return create(TimelineSchema, {
    transaction: message,
    accountId: found.accountId,
    postings: found.postings.map(({ postedAtMs, settlementId, ...posting }) => ({
      ...posting,
      postedAt: toTimestamp(postedAtMs),
      settlementId: settlementId ?? '',
    })),
    // The sort keeps the order of steps of the same time.
    steps: steps.sort((a, b) => timeOf(a) - timeOf(b)),
    expectedSteps: expectedSteps(found),
    deliveries: found.deliveries.map(({ delivery, endpointUrl, attempts: shown }) => ({
      delivery: toDeliveryMessage(withoutBody(delivery)),
      endpointUrl,
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

/** Its latest attempt is a step, which has the body. */
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
