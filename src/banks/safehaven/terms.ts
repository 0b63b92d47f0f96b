import { toMajorNumber } from '../../core/money.ts'
import type { OrderTerms } from '../bank.ts'
import type { JsonFields } from '../create-fields.ts'

/** Which differences the bank lets pass. */
const AMOUNT_CONTROLS = {
  EXACT: 'Fixed',
  AT_LEAST: 'OverPayment',
  AT_MOST: 'UnderPayment',
} as const

/** The shortest validity that the settings allow, too. */
const VALID_SECONDS_MIN = 60

/**
 * What the bank enforces of the terms of an expiring account: the amount and the expiry. What has no term keeps its
 * setting. Rounded up, so that the bank never expires an account before we do.
 */
export function termsFields(terms: OrderTerms | undefined, nowMs: number): JsonFields {
  if (terms === undefined) return {}
  const { expectedAmountMinor, amountRule, expiresAtMs } = terms
  return {
    ...(expectedAmountMinor !== undefined &&
      amountRule !== 'ANY' && {
        amountControl: AMOUNT_CONTROLS[amountRule],
        amount: toMajorNumber(expectedAmountMinor),
      }),
    ...(expiresAtMs !== undefined && {
      validFor: Math.max(VALID_SECONDS_MIN, Math.ceil((expiresAtMs - nowMs) / 1_000)),
    }),
  }
}
