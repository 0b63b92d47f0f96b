import { BANK_CODES, type BankCode } from '../banks/bank.ts'
import { HOUR_MS } from '../core/durations.ts'
import { textArray, timestampArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Database } from '../postgres/orm.ts'
import {
  addCounts,
  BUCKETS,
  quantileMs,
  readWebhookHours,
  type WebhookHour,
} from '../webhooks/count-attempts.ts'
import type { Scope } from './scope.ts'

/** The figures of one hour, or the sums of several hours. */
export interface HourFigures {
  readonly startsAtMs: number
  readonly payments: bigint
  readonly amountMinor: bigint
  readonly reversals: bigint
  readonly reversedMinor: bigint
  readonly attempts: number
  readonly delivered: number
  readonly failed: number
  readonly delayP95Ms: number
}

/** The figures of 24 hours, oldest first, and their total. */
export interface DayFigures {
  readonly hours: readonly HourFigures[]
  readonly total: HourFigures
}

const HOURS = 24
const WEEK_MS = 7 * 24 * HOUR_MS

/** The last 24 hours including the current hour, and the same hours a week before. */
export async function readHours(
  { durablePool, read }: Database,
  { businessIds }: Scope,
  live: boolean,
  nowMs: number,
): Promise<{ readonly day: DayFigures; readonly weekBefore: DayFigures }> {
  const lastMs = Math.floor(nowMs / HOUR_MS) * HOUR_MS
  const period = { fromMs: lastMs - (HOURS - 1) * HOUR_MS, toMs: lastMs }
  const before = { fromMs: period.fromMs - WEEK_MS, toMs: period.toMs - WEEK_MS }
  const ids = businessIds ?? ['']
  const [payments, webhooks] = await Promise.all([
    read((on) => readPaymentHours(on, ids, live, [period, before])),
    // Webhook figures are written with asynchronous commit, so they are read at the primary.
    readWebhookHours(durablePool, ids, live, [period, before]),
  ])
  const dayFrom = (fromMs: number) => toDay(fromMs, payments, webhooks)
  return { day: dayFrom(period.fromMs), weekBefore: dayFrom(before.fromMs) }
}

function toDay(
  fromMs: number,
  payments: readonly PaymentHour[],
  webhooks: readonly WebhookHour[],
): DayFigures {
  const within = <Row extends { readonly hourMs: number }>(
    rows: readonly Row[],
    hours: number,
    startMs: number,
  ) => rows.filter(({ hourMs }) => hourMs >= startMs && hourMs < startMs + hours * HOUR_MS)
  const figuresOf = (startMs: number, hours: number) =>
    addUp(startMs, within(payments, hours, startMs), within(webhooks, hours, startMs))
  const starts = Array.from({ length: HOURS }, (_, hour) => fromMs + hour * HOUR_MS)
  return { hours: starts.map((startMs) => figuresOf(startMs, 1)), total: figuresOf(fromMs, HOURS) }
}

function addUp(
  startsAtMs: number,
  payments: readonly PaymentHour[],
  webhooks: readonly WebhookHour[],
): HourFigures {
  const sum = (field: keyof Omit<PaymentHour, 'hourMs'>) =>
    payments.reduce((total, hour) => total + hour[field], 0n)
  const count = (field: 'attempts' | 'delivered' | 'failed') =>
    webhooks.reduce((total, hour) => total + hour[field], 0)
  const delays = new Array<number>(BUCKETS).fill(0)
  for (const hour of webhooks) addCounts(delays, hour.delays)
  return {
    startsAtMs,
    payments: sum('payments'),
    amountMinor: sum('amountMinor'),
    reversals: sum('reversals'),
    reversedMinor: sum('reversedMinor'),
    attempts: count('attempts'),
    delivered: count('delivered'),
    failed: count('failed'),
    delayP95Ms: quantileMs(delays, 0.95),
  }
}

/** The payments of one hour. */
interface PaymentHour {
  readonly hourMs: number
  readonly payments: bigint
  readonly amountMinor: bigint
  readonly reversals: bigint
  readonly reversedMinor: bigint
}

/** A period of whole hours: the starts of its first and its last hour. */
interface HourPeriod {
  readonly fromMs: number
  readonly toMs: number
}

/**
 * The payments of some businesses in one mode by the hour. Hours without payments are left out.
 *
 * @param businessIds `['']`: all businesses together
 */
async function readPaymentHours(
  on: Queryable,
  businessIds: readonly string[],
  live: boolean,
  periods: readonly HourPeriod[],
): Promise<readonly PaymentHour[]> {
  type Row = Readonly<Record<keyof Omit<PaymentHour, 'hourMs'>, string>> & { hourMs: number }
  const { rows } = await on.query<Row>({
    name: 'payment-hour-read',
    text: `select round(date_part('epoch', h.hour) * 1000) as "hourMs", sum(payments) as payments,
        sum(amount_minor) as "amountMinor", sum(reversals) as reversals, sum(reversed_minor) as "reversedMinor"
      from unnest($3::timestamptz[], $4::timestamptz[]) as p(first, last)
      cross join unnest($1::text[]) as b(id) cross join unnest($5::text[]) as k(bank)
      cross join lateral (select * from payment_hour where business_id = b.id and live = $2
        and bank = k.bank and hour >= p.first and hour <= p.last offset 0) h
      group by h.hour`,
    values: [
      textArray(businessIds),
      live,
      timestampArray(periods.map(({ fromMs }) => fromMs)),
      timestampArray(periods.map(({ toMs }) => toMs)),
      textArray(BANK_CODES),
    ],
  })
  return rows.map(({ hourMs, payments, amountMinor, reversals, reversedMinor }) => ({
    hourMs,
    payments: BigInt(payments),
    amountMinor: BigInt(amountMinor),
    reversals: BigInt(reversals),
    reversedMinor: BigInt(reversedMinor),
  }))
}

/** When the latest payment of each bank was recorded in a mode, in epoch milliseconds. */
export async function readLastPayments(
  on: Queryable,
  live: boolean,
): Promise<ReadonlyMap<BankCode, number>> {
  const { rows } = await on.query<{ bank: BankCode; at_ms: number }>({
    name: 'payment-hour-last',
    text: `select k.bank, round(date_part('epoch', h.last_at) * 1000) as at_ms from unnest($1::text[]) as k(bank)
      cross join lateral (select last_at from payment_hour where business_id = '' and live = $2
        and bank = k.bank and last_at is not null order by hour desc limit 1) h`,
    values: [textArray(BANK_CODES), live],
  })
  return new Map(rows.map(({ bank, at_ms }) => [bank, at_ms]))
}
