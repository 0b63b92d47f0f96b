import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { BankCode } from '../../banks/bank.ts'
import { Fault, invalidFields } from '../../core/errors.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { cutPage, type PageTokenField, readPage } from '../../postgres/page-token.ts'
import { findOfSession, type HeldFilter, listHeldBy } from './held-store.ts'
import { PaymentVarianceEntity } from './variance.entity.ts'

interface ListHeld extends HeldFilter {
  readonly pageSize: number
  readonly pageToken: string
  readonly pageTokenField?: PageTokenField
}

/** One page of the payments that wait for a decision, or for the completion of their return, newest first. */
export async function listHeldPayments(pool: Queryable, request: ListHeld) {
  const page = readPage(request.pageSize, request.pageToken, 1, request.pageTokenField)
  const found = await listHeldBy(pool, request, page.after?.[0], page.limit + 1)
  return cutPage(found, page, (transaction) => [transaction.id])
}

/** How many payments an operator is asked to return. */
export function countReturns(em: EntityManager): Promise<number> {
  // Both modes, so that the index is of use.
  return em.count(PaymentVarianceEntity, { live: [true, false], hold: 'RETURN_REQUESTED' })
}

/**
 * The id of a payment by its session; if several banks used that, of the one into a one-time account.
 *
 * @param bank empty: any
 * @throws Fault not_found; validation_failed (two banks used the session id for such payments)
 */
export async function findHeldId(
  pool: Pool,
  key: {
    readonly businessId: string
    readonly live: boolean
    readonly sessionId: string
    readonly bank: BankCode | ''
  },
): Promise<string> {
  const all = await findOfSession(pool, key)
  const atBank = key.bank === '' ? all : all.filter(({ bank }) => bank === key.bank)
  const oneTime = atBank.filter(({ isOneTime }) => isOneTime)
  const found = oneTime.length > 0 ? oneTime : atBank
  if (found.length > 1) {
    const message = 'is required: two banks used the session id'
    throw invalidFields([{ field: 'bank', message }])
  }
  // The same message for an unknown session and for a session of another business.
  if (found[0] === undefined) throw new Fault('not_found', 'There is no such transaction')
  return found[0].id
}
