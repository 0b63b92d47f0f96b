import type { BankCode, NotificationOutcome } from '../banks/bank.ts'
import { firstIdAt } from '../core/ids.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { cutPage, cutScan, readPage } from '../postgres/page-token.ts'
import { bindValues } from '../postgres/statement.ts'
import type { ShownNotification } from './message.ts'
import type { NotificationState } from './notification.entity.ts'

interface ListNotifications {
  readonly bank: BankCode | undefined
  /** Empty: any payment. Needs a bank. */
  readonly sessionId: string
  readonly state: NotificationState | undefined
  readonly outcomes: readonly NotificationOutcome[] | undefined
  /** When they were received; epoch milliseconds. */
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
  readonly pageSize: number
  readonly pageToken: string
}

/** The most notifications that a page reads, and that the list of a payment reads on each side of a time. */
const ROWS_MAX = 2_000

interface Row extends Omit<ShownNotification, 'amountMinor' | 'resolvedAtMs'> {
  readonly amount: string
  readonly resolvedAtMs: number | null
}

const COLUMNS = `n.id, n.bank, round(date_part('epoch', n.received_at) * 1000) as "receivedAtMs",
  n.account_number as "accountNumber", n.session_id as "sessionId", n.amount_minor as amount, n.state,
  n.outcome, n.cause, n.tries, round(date_part('epoch', n.resolved_at) * 1000) as "resolvedAtMs", n.note`

/** One page of stored notifications, newest first. Their ids begin with the time at which they were received. */
export async function listNotifications(on: Queryable, request: ListNotifications) {
  const page = readPage(request.pageSize, request.pageToken, 1)
  const { values, bind } = bindValues(page.limit + 1)
  const range = ['true', ...rangeOf(request, page.after?.[0], bind)].join(' and ')
  const conditions = ['true', ...conditionsOf(request, bind)].join(' and ')
  const { rows } = await on.query<{ readUpTo: string | null } & (Row | { id: null })>(
    `with page as materialized (
        select * from (
          select * from bank_notification where ${range} order by id desc limit ${ROWS_MAX}
        ) candidate where ${conditions} order by id desc limit $1
      ), edge as (
        select case when (select count(*) from page) < $1 then (
          select id from bank_notification where ${range} order by id desc offset ${ROWS_MAX - 1} limit 1
        ) end as read_up_to
      )
      select edge.read_up_to as "readUpTo", ${COLUMNS} from edge left join page n on true order by n.id desc`,
    values,
  )
  const found = rows.flatMap(({ readUpTo: _, ...row }) => (row.id === null ? [] : [toShown(row)]))
  const readUpTo = rows[0]?.readUpTo
  return cutScan(found, page, ({ id }) => [id], readUpTo ? [readUpTo] : undefined)
}

function rangeOf(
  { bank, sessionId, fromMs, toMs }: ListNotifications,
  after: string | undefined,
  bind: (value: unknown) => string,
): readonly string[] {
  const idAt = (atMs: number) => bind(firstIdAt('ntf', Math.max(0, Math.floor(atMs))))
  const range: string[] = []
  if (sessionId !== '') {
    const [session, code] = [bind(sessionId), bind(bank)]
    // At most banks the session id is also the bank's key of a payment; at others the key is stored with the session id.
    range.push(`bank_key = any (array(
      select ${session} union select bank_key from bank_payment_key where session_id = ${session} and bank = ${code}))
      and bank_key <> '' and bank = ${code}`)
  }
  if (after !== undefined) range.push(`id < ${bind(after)}`)
  if (fromMs !== undefined) range.push(`id >= ${idAt(fromMs)}`)
  if (toMs !== undefined) range.push(`id < ${idAt(toMs)}`)
  return range
}

function conditionsOf(
  { bank, state, outcomes }: ListNotifications,
  bind: (value: unknown) => string,
): readonly string[] {
  return [
    ...(bank === undefined ? [] : [`bank = ${bind(bank)}`]),
    ...(state === undefined ? [] : [`state = ${bind(state)}`]),
    ...(outcomes === undefined ? [] : [`outcome = any (${bind(outcomes)}::text[])`]),
  ]
}

function toShown({ amount, resolvedAtMs, ...row }: Row): ShownNotification {
  return { ...row, amountMinor: BigInt(amount), resolvedAtMs: resolvedAtMs ?? undefined }
}

/** One page of the notifications in manual review, newest first, by an index of their own. */
export async function listHeld(
  on: Queryable,
  request: Pick<ListNotifications, 'bank' | 'pageSize' | 'pageToken'>,
) {
  const page = readPage(request.pageSize, request.pageToken, 1)
  const { values, bind } = bindValues(page.limit + 1)
  const where = ["n.state = 'MANUAL_REVIEW'"]
  if (request.bank !== undefined) where.push(`n.bank = ${bind(request.bank)}`)
  if (page.after !== undefined) where.push(`n.id < ${bind(page.after[0])}`)
  const { rows } = await on.query<Row>(
    `select ${COLUMNS} from bank_notification n where ${where.join(' and ')}
      order by n.id desc limit $1`,
    values,
  )
  return cutPage(rows.map(toShown), page, ({ id }) => [id])
}

export type PaymentNotification = Pick<
  Required<ShownNotification>,
  'id' | 'receivedAtMs' | 'state' | 'outcome' | 'cause' | 'tries'
>

/**
 * The notifications of a payment, oldest first. Notifications have no index by session, because it would cost each an
 * entry. The search covers notifications that arrived near the time of the payment or of its recording.
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
  const { rows } = await on.query<PaymentNotification>({
    name: 'bank-notification-of-payment',
    text: `select id, round(date_part('epoch', received_at) * 1000) as "receivedAtMs", state, outcome, cause, tries
      from (
        select distinct n.id, n.received_at, n.state, n.outcome, n.cause, n.tries
        from unnest($1::timestamptz[]) as w(at) cross join lateral (
          (select * from bank_notification
            where received_at <= w.at and received_at > w.at - interval '2 minutes'
            order by received_at desc limit ${ROWS_MAX})
          union all
          (select * from bank_notification
            where received_at > w.at and received_at < w.at + interval '2 minutes'
            order by received_at limit ${ROWS_MAX})
        ) n where n.session_id = $2 and n.bank = $3
      ) n order by n.received_at, id limit $4`,
    values: [
      [new Date(payment.paidAtMs), new Date(payment.recordedAtMs)],
      payment.sessionId,
      payment.bank,
      limit,
    ],
  })
  return rows
}
