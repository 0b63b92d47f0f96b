import type { Pool } from 'pg'
import { insertConflict } from './store.ts'
import type { IncomingPayment, TransactionStatus } from './transaction.ts'

/** Keeps for a person what contradicts a recorded transaction. The same is kept once. */
export function holdDifference(
  pool: Pool,
  transactionId: string,
  told: Pick<IncomingPayment, 'accountNumber' | 'amountMinor'> & {
    readonly status: TransactionStatus
  },
  nowMs: number,
): Promise<void> {
  return insertConflict(pool, transactionId, told, nowMs)
}
