import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { insertConflict } from './store.ts'
import type { IncomingPayment, TransactionStatus } from './transaction.ts'

/** A recorded transaction that is told of otherwise, for whoever looks after such. */
export interface Difference {
  readonly bank: BankCode
  readonly transactionId: string
}

/** Keeps for a person what contradicts a recorded transaction. The same is kept, and told of, once. */
export async function recordConflict(
  { pool, differs }: { readonly pool: Pool; readonly differs: (difference: Difference) => void },
  difference: Difference,
  told: Pick<IncomingPayment, 'accountNumber' | 'amountMinor'> & {
    readonly status: TransactionStatus
  },
  nowMs: number,
): Promise<void> {
  if (await insertConflict(pool, difference.transactionId, told, nowMs)) differs(difference)
}
