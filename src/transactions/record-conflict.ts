import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { insertConflict } from './store.ts'
import type { IncomingPayment, TransactionStatus } from './transaction.ts'

/** A recorded transaction that a later report contradicts. */
export interface PaymentConflict {
  readonly bank: BankCode
  readonly transactionId: string
}

/**
 * Queues a report that contradicts a recorded transaction for manual review. Calls `onConflict`
 * once for each distinct report.
 */
export async function recordConflict(
  {
    pool,
    onConflict,
  }: { readonly pool: Pool; readonly onConflict: (conflict: PaymentConflict) => void },
  conflict: PaymentConflict,
  reported: Pick<IncomingPayment, 'accountNumber' | 'amountMinor'> & {
    readonly status: TransactionStatus
  },
  nowMs: number,
): Promise<void> {
  if (await insertConflict(pool, conflict.transactionId, reported, nowMs)) onConflict(conflict)
}
