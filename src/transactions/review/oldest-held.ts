import { joinAccount } from '../../accounts/account.sql.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from '../queries.ts'
import { joinTransaction } from '../transaction.sql.ts'
import type { StoredTransaction } from '../transaction.ts'

/** Which held payments; undefined: all. */
interface HeldFilter {
  readonly businessIds: readonly string[] | undefined
  readonly live: boolean | undefined
}

/** The payments that are held, or whose return is requested, oldest first. @param after the id of the last one */
export async function listOldestHeld(
  on: Queryable,
  filter: HeldFilter,
  after: string,
  limit: number,
): Promise<readonly StoredTransaction[]> {
  const { text, values } = heldIds(filter, after, limit)
  const { rows } = await on.query<TransactionRow>(
    `select ${TRANSACTION_COLUMNS} from (${text}) held ${joinTransaction('held.transaction_id')}
      ${joinAccount('t.account_id')} order by t.id`,
    values,
  )
  return rows.map(toStored)
}

/** How many wait, up to a bound. */
export async function countHeld(on: Queryable, filter: HeldFilter, max: number): Promise<number> {
  const { text, values } = heldIds(filter, '', max)
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (${text}) held`,
    values,
  )
  return rows[0]?.count ?? 0
}

/** One range of the index for each business, mode and state. */
function heldIds({ businessIds, live }: HeldFilter, after: string, limit: number) {
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
