import type { BankCode } from '../banks/bank.ts'
import type { StoredTransaction, TransactionStatus } from './transaction.ts'
import type { HoldState, Variance } from './variance/variance.ts'

/** Filters of a list of payments that no index serves; an absent field does not filter. */
export interface PaymentFilter {
  readonly bank?: BankCode | undefined
  readonly amountFromMinor?: bigint | undefined
  readonly amountToMinor?: bigint | undefined
  readonly variances?: readonly Variance[] | undefined
  readonly holds?: readonly HoldState[] | undefined
}

export function isFiltered(filter: PaymentFilter): boolean {
  const { bank, amountFromMinor, amountToMinor, variances, holds } = filter
  return [bank, amountFromMinor, amountToMinor, variances, holds].some((set) => set !== undefined)
}

/**
 * SQL: the conditions of a filter on the transaction of an alias.
 *
 * @param bind adds a parameter and returns its placeholder
 */
export function paymentConditions(
  filter: PaymentFilter,
  alias: string,
  bind: (value: unknown) => string,
): readonly string[] {
  const conditions: string[] = []
  const add = (value: unknown, conditionOf: (parameter: string) => string): void => {
    if (value !== undefined) conditions.push(conditionOf(bind(value)))
  }
  add(filter.bank, (bank) => `${alias}.bank = ${bank}`)
  add(filter.amountFromMinor, (minor) => `${alias}.amount_minor >= ${minor}`)
  add(filter.amountToMinor, (minor) => `${alias}.amount_minor <= ${minor}`)
  add(
    filter.variances,
    (all) => `(select variance from payment_variance
      where transaction_id = ${alias}.id offset 0) = any (${all}::text[])`,
  )
  add(
    filter.holds,
    (all) => `(select hold from payment_variance
      where transaction_id = ${alias}.id offset 0) = any (${all}::text[])`,
  )
  return conditions
}

export function matchesPayment(
  filter: PaymentFilter & { readonly statuses: readonly TransactionStatus[] | undefined },
  { bank, amountMinor, status, variance }: StoredTransaction,
): boolean {
  const { amountFromMinor = 0n, amountToMinor = amountMinor, variances, holds, statuses } = filter
  return (
    (filter.bank === undefined || bank === filter.bank) &&
    amountMinor >= amountFromMinor &&
    amountMinor <= amountToMinor &&
    (statuses === undefined || statuses.includes(status)) &&
    (variances === undefined ||
      (variance !== undefined && variances.includes(variance.variance))) &&
    (holds === undefined || (variance?.hold !== undefined && holds.includes(variance.hold)))
  )
}
