import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { BankCode } from '../banks/bank.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import { PaymentConflictEntity } from './exceptions.entity.ts'
import type { IncomingPayment, TransactionStatus } from './transaction.ts'

/** A recorded transaction that a later report contradicts. */
export interface PaymentConflict {
  readonly bank: BankCode
  readonly transactionId: string
}

/**
 * Stores a report that contradicts a recorded transaction for manual review. Calls `onConflict`
 * once for each distinct report.
 */
export async function recordConflict(
  {
    orm,
    onConflict,
  }: { readonly orm: MikroORM; readonly onConflict: (conflict: PaymentConflict) => void },
  conflict: PaymentConflict,
  reported: Pick<IncomingPayment, 'accountNumber' | 'amountMinor'> & {
    readonly status: TransactionStatus
  },
  nowMs: number,
): Promise<void> {
  const { accountNumber, amountMinor, status } = reported
  const transaction = conflict.transactionId
  const row = { transaction, accountNumber, amountMinor, status, createdAt: new Date(nowMs) }
  const { numInsertedOrUpdatedRows } = await queriesOf<typeof PaymentConflictEntity>(orm.em.fork())
    .insertInto('payment_conflict')
    .values(row)
    .onConflict((conflicting) => conflicting.doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 1n) onConflict(conflict)
}

/** How many distinct reports contradicted a recorded transaction since a time. */
export function countConflicts(em: EntityManager, sinceMs: number): Promise<number> {
  return em.count(PaymentConflictEntity, { createdAt: { $gte: new Date(sinceMs) } })
}
