import type { TimelineDelivery } from '../../../gen/inflow/overview/v1/timeline_pb.ts'
import {
  HoldState,
  type Transaction,
  TransactionStatus,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { type Delivery, DeliveryStatus } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import type { Tone } from '../format/enums.ts'
import { hostOf } from '../format/ids.ts'
import { msOf, timeText } from '../format/time.ts'

/** The most important information about a payment. */
interface Verdict {
  readonly tone: Tone
  /** One or two sentences. */
  readonly text: string
  /** A late delivery, which can be sent now. */
  readonly delivery?: Delivery
}

/** Describes the state of a payment, and why a receiver does not have it. */
export function verdictOf(
  payment: Transaction,
  deliveries: readonly TimelineDelivery[],
  nowMs: number,
): Verdict {
  const { status, holdState, imported } = payment
  if (imported)
    return { tone: 'neutral', text: 'Imported from another provider: it is in no balance.' }
  if (status === TransactionStatus.FAILED) {
    return { tone: 'bad', text: 'The bank reports that it failed: nothing was credited.' }
  }
  if (status === TransactionStatus.PENDING) {
    return { tone: 'waiting', text: 'The bank reports it as pending: nothing is credited yet.' }
  }
  const where =
    status === TransactionStatus.REVERSED
      ? 'Reversed: the money is in no balance.'
      : (HOLDS[holdState] ?? (payment.settled ? 'Received and settled.' : 'Received.'))
  const late = findLate(deliveries)
  if (late?.delivery) {
    return { tone: 'bad', text: `${where} ${lateText(late, nowMs)}`, delivery: late.delivery }
  }
  const tone =
    HOLDS[holdState] === undefined || status !== TransactionStatus.SUCCESS ? 'good' : 'waiting'
  return { tone, text: `${where} ${deliveredText(deliveries)}` }
}

const HOLDS: Readonly<Partial<Record<HoldState, string>>> = {
  [HoldState.HELD]: 'On hold, as it differs from the terms of its account: accept it or return it.',
  [HoldState.RETURN_REQUESTED]:
    'Its return was requested: send the money back at the bank, then complete the return.',
}

/** Finds a delivery that has not arrived: a failed one, or else one that is being retried. */
function findLate(deliveries: readonly TimelineDelivery[]): TimelineDelivery | undefined {
  const of = (isLate: (delivery: Delivery) => boolean) =>
    deliveries.findLast(({ delivery }) => delivery !== undefined && isLate(delivery))
  return (
    of(({ status }) => status === DeliveryStatus.FAILED) ??
    of(({ status, attemptCount }) => status === DeliveryStatus.PENDING && attemptCount > 0)
  )
}

function lateText({ delivery, endpointUrl }: TimelineDelivery, nowMs: number): string {
  const { status, failure = '', latestAttempt, dueAt } = delivery ?? {}
  const host = hostOf(endpointUrl)
  if (status === DeliveryStatus.FAILED) return `${host} does not have it: ${failure}.`
  const dueMs = msOf(dueAt) ?? nowMs
  const next = dueMs > nowMs ? timeText(dueMs, nowMs) : 'now'
  return `${host}: ${latestAttempt?.error || 'no acknowledgement'}. Next attempt ${next}.`
}

function deliveredText(deliveries: readonly TimelineDelivery[]): string {
  const hosts = [...new Set(deliveries.map(({ endpointUrl }) => hostOf(endpointUrl)))]
  if (hosts.length === 0) return 'No webhook endpoint gets it.'
  const names = hosts.length > 2 ? `${hosts.length} receivers` : hosts.join(' and ')
  const isOver = deliveries.every(({ delivery }) => delivery?.status === DeliveryStatus.DELIVERED)
  return isOver ? `Delivered to ${names}.` : `On its way to ${names}.`
}
