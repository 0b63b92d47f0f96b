import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { assignSession } from './store.ts'

/**
 * The session under which a payment is recorded that something else than a notification tells of:
 * the first one that it was told with, by whatever.
 *
 * @returns undefined when this session is that of another payment of the bank
 */
export function assignPaymentSession(
  pool: Pool,
  bank: BankCode,
  payment: { readonly bankKey: string; readonly sessionId: string },
  nowMs: number,
): Promise<string | undefined> {
  return assignSession(pool, bank, payment, nowMs)
}
