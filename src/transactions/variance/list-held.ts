import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { BankCode } from '../../banks/bank.ts'
import { Fault, invalidFields } from '../../core/errors.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { cutPage, type PageTokenField, readPage } from '../../postgres/page-token.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from '../queries.ts'
import type { StoredTransaction } from '../transaction.ts'
import { findOfSession, type HeldFilter, listHeldBy } from './decide-held.ts'
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

/** Which held payments; undefined: all. */
interface WaitingFilter {
  readonly businessIds: readonly string[] | undefined
  readonly live: boolean | undefined
}

/** The payments that are held, or whose return is requested, oldest first. @param after the id of the last one */
export async function listOldestHeld(
  on: Queryable,
  filter: WaitingFilter,
  after: string,
  limit: number,
): Promise<readonly StoredTransaction[]> {
  const { text, values } = heldIds(filter, after, limit)
  const { rows } = await on.query<TransactionRow>(
    `select ${TRANSACTION_COLUMNS} from (${text}) held join transaction t on t.id = held.transaction_id
      join account a on a.id = t.account_id order by t.id`,
    values,
  )
  return rows.map(toStored)
}

/** How many wait, up to a bound. */
export async function countHeld(
  on: Queryable,
  filter: WaitingFilter,
  max: number,
): Promise<number> {
  const { text, values } = heldIds(filter, '', max)
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (${text}) held`,
    values,
  )
  return rows[0]?.count ?? 0
}

/** One range of the index for each business, mode and state. */
function heldIds({ businessIds, live }: WaitingFilter, after: string, limit: number) {
  const modes = live === undefined ? [true, false] : [live]
  const oldest = 'order by v.transaction_id limit $1'
  const values: unknown[] = [limit, after, modes]
  const ofBusiness = businessIds === undefined ? '' : 'v.business_id = b.id and'
  if (businessIds !== undefined) values.push(businessIds)
  const businesses = businessIds === undefined ? '' : 'cross join unnest($4::text[]) as b(id)'
  const text = `select v.transaction_id from unnest($3::boolean[]) as m(live)
      cross join unnest(array['HELD', 'RETURN_REQUESTED']) as h(hold) ${businesses}
      cross join lateral (
        select v.transaction_id from payment_variance v
        where ${ofBusiness} v.hold in ('HELD', 'RETURN_REQUESTED') and v.live = m.live
          and v.hold = h.hold and v.transaction_id > $2 ${oldest}
      ) v ${oldest}`
  return { text, values }
}
