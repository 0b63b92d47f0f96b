import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Logger } from 'pino'
import type { BankCode } from '../banks/bank.ts'
import { afterCommit } from '../core/after-commit.ts'
import type { Clock } from '../core/clock.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import { PaymentConflictEntity } from './exceptions.entity.ts'
import type { IncomingPayment, TransactionStatus } from './transaction.ts'

/** A recorded transaction that a later report contradicts. */
export interface PaymentConflict {
  readonly bank: BankCode
  readonly transactionId: string
}

/** A report that contradicts a recorded transaction. */
export interface ConflictingReport extends PaymentConflict {
  readonly reported: Pick<IncomingPayment, 'accountNumber' | 'amountMinor'> & {
    readonly status: TransactionStatus
  }
}

interface Dependencies {
  readonly orm: MikroORM
  readonly clock: Clock
  readonly log: Logger
  /** Called once for each distinct report. */
  readonly onConflict: (conflict: PaymentConflict) => void
}

/**
 * Stores reports that contradict recorded transactions for manual review, in one commit. The same
 * report is stored once.
 */
export async function recordConflicts(
  { orm, clock, log, onConflict }: Dependencies,
  reports: readonly ConflictingReport[],
): Promise<void> {
  const createdAt = new Date(clock.now())
  const rows = reports.map(({ transactionId, reported }) => {
    const { accountNumber, amountMinor, status } = reported
    return { transaction: transactionId, accountNumber, amountMinor, status, createdAt }
  })
  // Every statement inserts in the same order, to prevent deadlocks.
  const sorted = rows
    .map((row) => ({ row, key: keyOf(row) }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ row }) => row)
  const inserted = await queriesOf<typeof PaymentConflictEntity>(orm.em.fork())
    .insertInto('payment_conflict')
    .values(sorted)
    .onConflict((conflicting) => conflicting.doNothing())
    .returning('transaction')
    .execute()
  const banks = new Map(reports.map(({ transactionId, bank }) => [transactionId, bank]))
  for (const { transaction: transactionId } of inserted) {
    const bank = banks.get(transactionId) as BankCode
    afterCommit(log, () => onConflict({ bank, transactionId }))
  }
}

function keyOf(row: { transaction: string; accountNumber: string; amountMinor: bigint }): string {
  return `${row.transaction} ${row.accountNumber} ${row.amountMinor}`
}

/** How many distinct reports contradicted a recorded transaction since a time. */
export function countConflicts(em: EntityManager, sinceMs: number): Promise<number> {
  return em.count(PaymentConflictEntity, { createdAt: { $gte: new Date(sinceMs) } })
}
