import type { BankCode } from '../banks/bank.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { NotificationState } from './notification.entity.ts'

/** A notification of a payment. */
export interface PaymentNotification {
  readonly id: string
  readonly receivedAtMs: number
  readonly state: NotificationState
  readonly outcome: string
  readonly cause: string
  readonly tries: number
}

/** How far from a time notifications are looked for, and how many at most on each side of it. */
const WITHIN = "interval '2 minutes'"
const ROWS_MAX = 2_000

/**
 * The notifications of a payment, oldest first. They are not indexed by session, which would cost each of them an
 * entry: they are looked for among those that arrived near the time of the payment and of its recording.
 */
export async function listOfPayment(
  on: Queryable,
  payment: {
    readonly bank: BankCode
    readonly sessionId: string
    readonly paidAtMs: number
    readonly recordedAtMs: number
  },
  limit: number,
): Promise<readonly PaymentNotification[]> {
  const near = `select distinct n.id, n.received_at, n.state, n.outcome, n.cause, n.tries
    from unnest($1::timestamptz[]) as w(at) cross join lateral (
      (select * from bank_notification where received_at <= w.at and received_at > w.at - ${WITHIN}
        order by received_at desc limit ${ROWS_MAX})
      union all
      (select * from bank_notification where received_at > w.at and received_at < w.at + ${WITHIN}
        order by received_at limit ${ROWS_MAX})
    ) n where n.session_id = $2 and n.bank = $3`
  const { rows } = await on.query<PaymentNotification>({
    name: 'bank-notification-of-payment',
    text: `select id, ${epochMs('received_at')} as "receivedAtMs", state, outcome, cause, tries
      from (${near}) n order by n.received_at, id limit $4`,
    values: [
      [new Date(payment.paidAtMs), new Date(payment.recordedAtMs)],
      payment.sessionId,
      payment.bank,
      limit,
    ],
  })
  return rows
}
