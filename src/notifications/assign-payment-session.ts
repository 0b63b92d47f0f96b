import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { assignSession } from './store.ts'

/**
 * The session id under which to record a payment that was not reported by a notification: the first
 * one that any source reported for it.
 *
 * @returns undefined if another payment of the bank has this session id
 */
export function assignPaymentSession(
  pool: Pool,
  bank: BankCode,
  payment: { readonly bankKey: string; readonly sessionId: string },
  nowMs: number,
): Promise<string | undefined> {
  return assignSession(pool, bank, payment, nowMs)
}
