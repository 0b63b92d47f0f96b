import type { LockedTerms } from '../../accounts/terms/one-time-store.ts'
import type { StoredTransaction } from '../transaction.ts'
import type { Decided } from './record-store.ts'
import { newVariance, varianceOf } from './variance.ts'

/** A payment into a one-time account, and what is decided of it. */
interface DecidedPayment {
  readonly transaction: StoredTransaction
  readonly decided: Decided
}

/** Decides about a payment by the terms of its account, which the caller has locked until the commit. */
export function decidePayment(terms: LockedTerms, payment: StoredTransaction): DecidedPayment {
  if (payment.status !== 'SUCCESS') {
    return { transaction: payment, decided: { variance: null, hold: null, isUse: false } }
  }
  const isUsed = terms.usedAtMs !== undefined
  const variance = newVariance(varianceOf(terms, isUsed, payment))
  return {
    transaction: { ...payment, variance },
    decided: {
      variance: variance.variance,
      hold: variance.hold ?? null,
      isUse: terms.singleUse && variance.hold === undefined,
    },
  }
}

/**
 * Splits payments into rounds. Of those into one single-use account, each round has one: what it does decides about
 * the next.
 */
export function roundsOf<Payment>(
  payments: readonly Payment[],
  accountOf: (payment: Payment) => { readonly id: string; readonly isSingleUse: boolean },
): readonly (readonly Payment[])[] {
  const counts = new Map<string, number>()
  const rounds: Payment[][] = []
  for (const payment of payments) {
    const { id, isSingleUse } = accountOf(payment)
    const round = counts.get(id) ?? 0
    if (isSingleUse) counts.set(id, round + 1)
    rounds[round] ??= []
    rounds[round]?.push(payment)
  }
  return rounds
}
