import { type AuditedActor, findLatestActor } from '../auth/audit/list-audit-entries.ts'
import { Fault } from '../core/errors.ts'
import { findEventsOf, type LoggedEvent } from '../events/find-event.ts'
import { listOfPayment, type PaymentNotification } from '../notifications/list-notifications.ts'
import { listPayouts } from '../payouts/list-payouts.ts'
import type { Payout } from '../payouts/payout.ts'
import type { Database } from '../postgres/orm.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type PaymentHistory, readPaymentHistory } from '../transactions/read-history.ts'
import {
  awaitsSettlement,
  creditedAtOf,
  type StoredTransaction,
} from '../transactions/transaction.ts'
import type { AttemptedDelivery } from '../webhooks/deliveries/read-deliveries.ts'
import { listAtPositions } from '../webhooks/deliveries/read-deliveries.ts'

/** Everything that is stored about a payment. */
export interface PaymentTimeline extends PaymentHistory {
  readonly notifications: readonly PaymentNotification[]
  readonly events: readonly LoggedEvent[]
  readonly deliveries: readonly AttemptedDelivery[]
  /** The refunds of the payment, newest first. */
  readonly refunds: readonly Payout[]
  /** The actor who reversed the payment. */
  readonly reversedBy: AuditedActor | undefined
  /** When the payment will be settled; undefined: it is settled, or will never be. */
  readonly settlesAtMs: number | undefined
  /** Whether a list was cut at its limit. */
  readonly isCut: boolean
}

export interface TimelineDependencies {
  /** Returns a function from the time when a payment of the business was recorded to the time when it will be settled. */
  readonly settlesAtOf: (
    businessId: string,
  ) => Promise<((recordedAtMs: number) => number) | undefined>
}

const NOTIFICATIONS_MAX = 20
const CONFLICTS_MAX = 20
const EVENTS_MAX = 20
const REFUNDS_MAX = 20
const DELIVERIES_MAX = 100
export const ATTEMPTS_MAX = 20

/**
 * Reads the timeline through the functions of the other domains. It needs no index of its own: event ids begin with the
 * millisecond in which the event occurred, so events are found by that time, and notifications are searched for among those
 * that arrived around the time of the payment.
 *
 * @throws Fault not_found
 */
export async function readTimeline(
  { database }: Runtime,
  { settlesAtOf }: TimelineDependencies,
  transactionId: string,
): Promise<PaymentTimeline> {
  const { read, durablePool } = database
  const history = await read((on) => readPaymentHistory(on, transactionId, CONFLICTS_MAX))
  if (history === undefined) throw new Fault('not_found', 'There is no such transaction')
  const { transaction } = history
  const { account, reversal } = transaction
  const [notifications, events, refunds, reversedBy, settlesAtMs] = await Promise.all([
    account.live ? findNotifications(database, transaction) : [],
    findEvents(database, transaction),
    findRefunds(database, transaction),
    reversal &&
      findLatestActor(
        durablePool,
        ['transaction.reverse', 'transaction.complete_return'],
        transactionId,
      ),
    findSettlesAt(settlesAtOf, transaction),
  ])
  const shownEvents = events.slice(0, EVENTS_MAX)
  const deliveries = await listAtPositions(
    durablePool,
    account.businessId,
    shownEvents.map(({ position }) => position),
    { deliveries: DELIVERIES_MAX + 1, attempts: ATTEMPTS_MAX },
  )
  const isCut =
    history.conflicts.length > CONFLICTS_MAX ||
    notifications.length > NOTIFICATIONS_MAX ||
    events.length > EVENTS_MAX ||
    refunds.nextPageToken !== '' ||
    deliveries.length > DELIVERIES_MAX
  return {
    ...history,
    conflicts: history.conflicts.slice(0, CONFLICTS_MAX),
    notifications: notifications.slice(0, NOTIFICATIONS_MAX),
    events: shownEvents,
    deliveries: deliveries.slice(0, DELIVERIES_MAX),
    refunds: refunds.rows,
    reversedBy,
    settlesAtMs,
    isCut,
  }
}

function findNotifications({ read }: Database, transaction: StoredTransaction) {
  const { bank, sessionId, paidAtMs, createdAtMs: recordedAtMs } = transaction
  const payment = { bank, sessionId, paidAtMs, recordedAtMs }
  return read((on) => listOfPayment(on, payment, NOTIFICATIONS_MAX + 1))
}

/** Finds the events of a payment. They occurred in the millisecond of its recording, its decision or its reversal. */
function findEvents({ read }: Database, transaction: StoredTransaction) {
  const { id, account, createdAtMs, variance, reversal } = transaction
  const times = [createdAtMs, variance?.decidedAtMs, reversal?.reversedAtMs]
  const subject = {
    subjectId: id,
    businessId: account.businessId,
    occurredAtMs: times.filter((atMs) => atMs !== undefined),
  }
  return read((on) => findEventsOf(on, subject, EVENTS_MAX + 1))
}

function findRefunds({ read }: Database, { id, account }: StoredTransaction) {
  return read((on) =>
    listPayouts(on, {
      businessIds: [account.businessId],
      live: account.live,
      statuses: [],
      purpose: 'REFUND',
      transactionId: id,
      pageSize: REFUNDS_MAX,
      pageToken: '',
    }),
  )
}

async function findSettlesAt(
  settlesAtOf: TimelineDependencies['settlesAtOf'],
  transaction: StoredTransaction,
): Promise<number | undefined> {
  if (!awaitsSettlement(transaction)) return undefined
  return (await settlesAtOf(transaction.account.businessId))?.(creditedAtOf(transaction))
}
