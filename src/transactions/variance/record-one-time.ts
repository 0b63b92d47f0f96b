import type { Pool } from 'pg'
import type { Logger } from 'pino'
import {
  type LockedTerms,
  lockOneTimeAccounts,
  useAccounts,
} from '../../accounts/one-time-store.ts'
import { afterCommit } from '../../core/after-commit.ts'
import { assert } from '../../core/errors.ts'
import { inTransaction } from '../../postgres/in-transaction.ts'
import type { Finalization, NewTransaction } from '../store.ts'
import type { StoredTransaction } from '../transaction.ts'
import { type Decided, finalizeOneTime, insertOneTime } from './record-store.ts'
import { newVariance, varianceOf } from './variance.ts'

/** A payment into a one-time account. */
interface OneTimePayment<Row> {
  readonly accountId: string
  readonly isSingleUse: boolean
  readonly transaction: StoredTransaction
  /** The row to write, with the event of the transaction as it was decided. */
  readonly toRow: (transaction: StoredTransaction) => Row
}

/** A decided payment, and whether it was written. It was not if its session is known or its account closed. */
interface Written<Row> {
  readonly isWritten: boolean
  readonly transaction: StoredTransaction
  readonly row: Row
}

interface Dependencies {
  readonly pool: Pool
  readonly log: Logger
  /** Called after a commit that added events. */
  readonly onCommit: () => void
}

/**
 * Records payments into one-time accounts. Each is decided while its account is locked, and recorded in the same
 * transaction: of two payments at once into a single-use account, the second sees the first.
 *
 * @param onWritten called with what each transaction has written, after its commit, in the order of the payments
 */
export function recordOneTime<Payment extends OneTimePayment<NewTransaction>>(
  dependencies: Dependencies,
  payments: readonly Payment[],
  nowMs: number,
  onWritten: (payment: Payment, written: Written<NewTransaction>) => void,
): Promise<void> {
  const write = { run: insertOneTime, keyOf: ({ id }: NewTransaction) => id }
  return writeInRounds(dependencies, payments, nowMs, write, onWritten)
}

/** As `recordOneTime`, for the final reports of pending payments. */
export function finalizeOneTimePayments<Payment extends OneTimePayment<Finalization>>(
  dependencies: Dependencies,
  payments: readonly Payment[],
  nowMs: number,
  onWritten: (payment: Payment, written: Written<Finalization>) => void,
): Promise<void> {
  const write = { run: finalizeOneTime, keyOf: ({ eventId }: Finalization) => eventId }
  return writeInRounds(dependencies, payments, nowMs, write, onWritten)
}

interface Write<Row> {
  readonly run: (
    client: Parameters<typeof insertOneTime>[0],
    rows: readonly (Row & Decided)[],
  ) => Promise<ReadonlySet<string>>
  readonly keyOf: (row: Row) => string
}

async function writeInRounds<Row extends object, Payment extends OneTimePayment<Row>>(
  { pool, log, onCommit }: Dependencies,
  payments: readonly Payment[],
  nowMs: number,
  { run, keyOf }: Write<Row>,
  onWritten: (payment: Payment, written: Written<Row>) => void,
): Promise<void> {
  const accountOf = ({ accountId: id, isSingleUse }: Payment) => ({ id, isSingleUse })
  for (const round of roundsOf(payments, accountOf)) {
    const { decided, written } = await inTransaction(pool, async (client) => {
      const ids = round.map(({ accountId }) => accountId)
      const accounts = await lockOneTimeAccounts(client, ids)
      const decided = round.map((payment) => {
        const terms = accounts.get(payment.accountId)
        assert(terms, 'whether an account is for one time never changes')
        const { transaction, decided } = decidePayment(terms, payment.transaction)
        return { payment, transaction, row: { ...payment.toRow(transaction), ...decided } }
      })
      const written = await run(
        client,
        decided.map(({ row }) => row),
      )
      const used = decided.filter(({ row }) => row.isUse && written.has(keyOf(row)))
      if (used.length > 0) {
        const usedIds = used.map(({ payment }) => payment.accountId)
        await useAccounts(client, usedIds, nowMs)
      }
      return { decided, written }
    })
    for (const { payment, transaction, row } of decided) {
      onWritten(payment, { isWritten: written.has(keyOf(row)), transaction, row })
    }
    if (written.size > 0) afterCommit(log, onCommit)
  }
}

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
 * Splits payments into rounds, each with at most one payment into a single-use account: its outcome decides about the
 * next one.
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
