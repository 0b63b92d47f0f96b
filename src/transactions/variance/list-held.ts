import type { BusinessScope } from '../../auth/caller.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { cutPage, type PageTokenField, readPage } from '../../postgres/page-token.ts'
import { bindValues } from '../../postgres/statement.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from '../queries.ts'
import type { StoredTransaction } from '../transaction.ts'

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
  // The caller has checked that a requested business is allowed.
  const businessIds = businessId === undefined ? allowed && [...allowed] : [businessId]
  const filter = { businessIds, live, hold }
  const found = await listHeldBy(on, filter, 'desc', page.after?.[0], page.limit + 1)
  return cutPage(found, page, (transaction) => [transaction.id])
}

/** Counts the held payments that pass the filter, up to `max`. */
export async function countHeld(on: Queryable, filter: HeldFilter, max: number): Promise<number> {
  const { text, values } = heldIds(filter, 'asc', undefined, max)
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (${text}) held`,
    values,
  )
  return rows[0]?.count ?? 0
}

/** Which held payments to list; an undefined field does not filter. */
interface HeldFilter extends BusinessScope {
  readonly hold?: 'HELD' | 'RETURN_REQUESTED' | undefined
}

/**
 * The payments that are held, or whose return is requested, by their ids.
 *
 * @param after the id of the last payment of the previous page
 */
export async function listHeldBy(
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

/** SQL: the ids, read from one range of the index for each business, mode and state. */
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
  // Literals, so that the planner can choose the partial indexes.
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
