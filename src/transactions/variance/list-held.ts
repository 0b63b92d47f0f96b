import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { BankCode } from '../../banks/bank.ts'
import { Fault, invalidFields } from '../../core/errors.ts'
import { bindValues } from '../../postgres/bind-values.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { cutPage, type PageTokenField, readPage } from '../../postgres/page-token.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from '../queries.ts'
import type { StoredTransaction } from '../transaction.ts'
import { PaymentVarianceEntity } from './variance.entity.ts'

interface ListHeld {
  readonly businessId: string | undefined
  /** The businesses that the caller may see; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
  readonly live: boolean | undefined
  readonly hold: HeldFilter['hold']
  readonly pageSize: number
  readonly pageToken: string
  readonly pageTokenField?: PageTokenField
}

/** One page of the payments that wait for a decision, or for the completion of their return, newest first. */
export async function listHeldPayments(
  on: Queryable,
  { businessId, allowed, live, hold, ...paging }: ListHeld,
) {
  const page = readPage(paging.pageSize, paging.pageToken, 1, paging.pageTokenField)
  // A requested business is one of the allowed ones.
  const businessIds = businessId === undefined ? allowed && [...allowed] : [businessId]
  const filter = { businessIds, live, hold }
  const found = await listHeldBy(on, filter, 'desc', page.after?.[0], page.limit + 1)
  return cutPage(found, page, (transaction) => [transaction.id])
}

/** The payments that are held, or whose return is requested, oldest first. @param after the id of the last one */
export function listOldestHeld(
  on: Queryable,
  filter: HeldFilter,
  after: string,
  limit: number,
): Promise<readonly StoredTransaction[]> {
  return listHeldBy(on, filter, 'asc', after, limit)
}

/** How many wait, up to a bound. */
export async function countHeld(on: Queryable, filter: HeldFilter, max: number): Promise<number> {
  const { text, values } = heldIds(filter, 'asc', undefined, max)
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (${text}) held`,
    values,
  )
  return rows[0]?.count ?? 0
}

/** How many payments an operator is asked to return. */
export function countReturns(em: EntityManager): Promise<number> {
  // Both modes, so that the index is of use.
  return em.count(PaymentVarianceEntity, { live: [true, false], hold: 'RETURN_REQUESTED' })
}

/** Which held payments to list; an undefined field does not filter. */
interface HeldFilter {
  readonly businessIds: readonly string[] | undefined
  readonly live: boolean | undefined
  readonly hold?: 'HELD' | 'RETURN_REQUESTED' | undefined
}

async function listHeldBy(
  on: Queryable,
  filter: HeldFilter,
  direction: 'asc' | 'desc',
  after: string | undefined,
  limit: number,
): Promise<readonly StoredTransaction[]> {
  const { text, values } = heldIds(filter, direction, after, limit)
  const { rows } = await on.query<TransactionRow>(
    `select ${TRANSACTION_COLUMNS} from (${text}) held
      join transaction t on t.id = held.transaction_id join account a on a.id = t.account_id
      order by t.id ${direction}`,
    values,
  )
  return rows.map(toStored)
}

/** The ids by one range of the index for each business, mode and state. */
function heldIds(
  { businessIds, live, hold }: HeldFilter,
  direction: 'asc' | 'desc',
  after: string | undefined,
  limit: number,
) {
  const { values, bind } = bindValues(limit)
  const ranges = [
    `unnest(${bind(live === undefined ? [true, false] : [live])}::boolean[]) as m(live)`,
    `unnest(${bind(hold === undefined ? ['HELD', 'RETURN_REQUESTED'] : [hold])}::text[]) as h(hold)`,
  ]
  // A literal, by which the planner chooses the partial indexes.
  const where = ["v.hold in ('HELD', 'RETURN_REQUESTED') and v.live = m.live and v.hold = h.hold"]
  if (businessIds !== undefined) {
    ranges.push(`unnest(${bind(businessIds)}::text[]) as b(id)`)
    where.push('v.business_id = b.id')
  }
  if (after !== undefined) {
    where.push(`v.transaction_id ${direction === 'asc' ? '>' : '<'} ${bind(after)}`)
  }
  const order = `order by v.transaction_id ${direction} limit $1`
  const text = `select v.transaction_id from ${ranges.join(' cross join ')} cross join lateral (
      select v.transaction_id from payment_variance v where ${where.join(' and ')} ${order}
    ) v ${order}`
  return { text, values }
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
  interface Row {
    readonly id: string
    readonly bank: BankCode
    readonly isOneTime: boolean
  }
  const { rows } = await pool.query<Row>({
    name: 'payment-variance-find-session',
    text: `select t.id, t.bank,
        exists (select from payment_variance v where v.transaction_id = t.id offset 0) as "isOneTime"
      from (
          select transaction_id from payment_session s
          where s.session_id = $2 and s.live = $3 offset 0) s
        cross join lateral (select * from transaction t where t.id = s.transaction_id offset 0) t
      where t.business_id = $1`,
    values: [key.businessId, key.sessionId, key.live],
  })
  const atBank = rows.filter(({ bank }) => key.bank === '' || bank === key.bank)
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
