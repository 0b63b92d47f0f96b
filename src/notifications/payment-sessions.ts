import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import type { PaymentKeyEntity } from './notification.entity.ts'
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

/** The session ids of the payments that have one, by the bank's keys of the payments. */
export async function findPaymentSessions(
  em: EntityManager,
  bank: BankCode,
  bankKeys: ReadonlySet<string>,
): Promise<ReadonlyMap<string, string>> {
  if (bankKeys.size === 0) return new Map()
  const rows = await queriesOf<typeof PaymentKeyEntity>(em)
    .selectFrom('bank_payment_key')
    .select(['bankKey', 'sessionId'])
    .where('bank', '=', bank)
    .where('bankKey', 'in', [...bankKeys])
    .execute()
  return new Map(rows.map(({ bankKey, sessionId }) => [bankKey, sessionId]))
}
