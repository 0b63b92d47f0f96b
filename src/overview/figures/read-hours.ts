import { HOUR_MS } from '../../core/durations.ts'
import type { Database } from '../../postgres/orm.ts'
import { addCounts, BUCKETS, quantileMs } from '../../webhooks/figures/delay-histogram.ts'
import { readWebhookHours, type WebhookHour } from '../../webhooks/figures/hour-store.ts'
import type { Scope } from '../scope.ts'
import { type PaymentHour, readPaymentHours } from './read-payment-hours.ts'

/** What happened in one hour, or in several. */
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

/** The figures of a day by the hour, oldest first, and all of them together. */
export interface DayFigures {
  readonly hours: readonly HourFigures[]
  readonly total: HourFigures
}

const HOURS = 24
const WEEK_MS = 7 * 24 * HOUR_MS

/** The last 24 hours, of which the current one is not over, and the same hours a week before. */
export async function readHours(
  { pool, read }: Database,
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
    // Written without waiting for the disk, so read at the primary.
    readWebhookHours(pool, ids, live, [period, before]),
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
