import { BANK_CODES, type BankCode } from '../../banks/bank.ts'
import { textArray, timestampArray } from '../../postgres/binary-arrays.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'

/** The payments of one hour. */
export interface PaymentHour {
  readonly hourMs: number
  readonly payments: bigint
  readonly amountMinor: bigint
  readonly reversals: bigint
  readonly reversedMinor: bigint
}

/** A period of whole hours: from the first one to the last one. */
export interface HourPeriod {
  readonly fromMs: number
  readonly toMs: number
}

/**
 * The payments of some businesses in one mode by the hour; hours without any are left out.
 *
 * @param businessIds `['']`: all together
 */
export async function readPaymentHours(
  on: Queryable,
  businessIds: readonly string[],
  live: boolean,
  periods: readonly HourPeriod[],
): Promise<readonly PaymentHour[]> {
  const { rows } = await on.query<{
    hour_ms: number
    payments: string
    amount: string
    reversals: string
    reversed: string
  }>({
    name: 'payment-hour-read',
    text: `select ${epochMs('h.hour')} as hour_ms, sum(payments) as payments,
        sum(amount_minor) as amount, sum(reversals) as reversals, sum(reversed_minor) as reversed
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
  return rows.map((row) => ({
    hourMs: row.hour_ms,
    payments: BigInt(row.payments),
    amountMinor: BigInt(row.amount),
    reversals: BigInt(row.reversals),
    reversedMinor: BigInt(row.reversed),
  }))
}

/** When the latest payment of each bank was recorded in a mode, in epoch milliseconds. */
export async function readLastPayments(
  on: Queryable,
  live: boolean,
): Promise<ReadonlyMap<BankCode, number>> {
  const { rows } = await on.query<{ bank: BankCode; at_ms: number }>({
    name: 'payment-hour-last',
    text: `select k.bank, ${epochMs('h.last_at')} as at_ms from unnest($1::text[]) as k(bank)
      cross join lateral (select last_at from payment_hour where business_id = '' and live = $2
        and bank = k.bank and last_at is not null order by hour desc limit 1) h`,
    values: [textArray(BANK_CODES), live],
  })
  return new Map(rows.map(({ bank, at_ms }) => [bank, at_ms]))
}
