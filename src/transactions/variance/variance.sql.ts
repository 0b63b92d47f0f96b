import { ifOneTime } from '../../accounts/account.sql.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { HoldState, PaymentVariance, Variance } from './variance.ts'

/** The columns of a variance, as the driver parses them. */
export type VarianceArray = readonly [
  variance: Variance,
  hold: HoldState | null,
  decidedAtMs: number | null,
  returnReason: string,
]

/** SQL: the kind of the variance of the transaction of an id; null if it has none. */
export const VARIANCE_OF = (id: string) =>
  `select variance from payment_variance where transaction_id = ${id} offset 0`

/** SQL: what became of the held transaction of an id; null if it was never held. */
export const HOLD_OF = (id: string) =>
  `select hold from payment_variance where transaction_id = ${id} offset 0`

/** SQL: the variance of the transaction `t` of the account `a`; null for permanent accounts. */
export const VARIANCE = ifOneTime(
  `select json_build_array(v.variance, v.hold, ${epochMs('v.decided_at')}, v.return_reason)
    from payment_variance v where v.transaction_id = t.id offset 0`,
)

export function toVariance(row: VarianceArray | null): PaymentVariance | undefined {
  if (row === null) return undefined
  const [variance, hold, decidedAtMs, returnReason] = row
  return { variance, hold: hold ?? undefined, decidedAtMs: decidedAtMs ?? undefined, returnReason }
}

/** What a transaction shows of the terms of its account; undefined for a permanent account. */
export function expectationOf(oneTime: boolean, expectedAmountMinor: string | null) {
  if (!oneTime) return undefined
  const amountMinor = expectedAmountMinor === null ? undefined : BigInt(expectedAmountMinor)
  return { expectedAmountMinor: amountMinor }
}
