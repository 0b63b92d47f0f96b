import { toMajorNumber } from '../../core/money.ts'
import type { OrderTerms } from '../bank.ts'
import type { JsonFields } from '../create-fields.ts'

const AMOUNT_TYPES = {
  EXACT: 'EXACT',
  AT_LEAST: 'HIGHEROREXACT',
  AT_MOST: 'LOWEROREXACT',
} as const

const HOUR_MS = 3_600_000

/** The bank's own limit. */
const EXPIRY_HOURS_MAX = 24

/**
 * What the bank enforces of an account's terms: the amount; and the expiry, in whole hours, if that is within a day.
 * An hour that has begun counts, so that the bank never expires an account before we do. Source: the bank's document
 * "Virtual Account Service".
 */
export function termsFields(
  terms: OrderTerms | undefined,
  nowMs: number,
): { readonly amount?: JsonFields; readonly account?: JsonFields } {
  if (terms === undefined) return {}
  const { expectedAmountMinor, amountRule, expiresAtMs } = terms
  const hours =
    expiresAtMs === undefined ? Infinity : Math.max(1, Math.ceil((expiresAtMs - nowMs) / HOUR_MS))
  return {
    ...(expectedAmountMinor !== undefined &&
      amountRule !== 'ANY' && {
        amount: {
          amount: toMajorNumber(expectedAmountMinor),
          amounttype: AMOUNT_TYPES[amountRule],
        },
      }),
    ...(hours <= EXPIRY_HOURS_MAX && { account: { type: 'DYNAMIC', expiry: { hours } } }),
  }
}
