import type { BankCode } from '../../banks/bank.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'

/** An account whose opening waits for an operator. */
interface WaitingOpening {
  readonly id: string
  readonly businessId: string
  readonly live: boolean
  readonly reference: string
  readonly bank: BankCode
  readonly cause: string
  readonly createdAtMs: number
}

/** Which openings; undefined: all. */
interface OpeningFilter {
  readonly businessIds: readonly string[] | undefined
  readonly live: boolean | undefined
}

/** The accounts whose opening has no clear result, oldest first. @param after the id of the last one */
export async function listInReview(
  on: Queryable,
  filter: OpeningFilter,
  after: string,
  limit: number,
): Promise<readonly WaitingOpening[]> {
  const { text, values } = inReview(filter, after, limit)
  const { rows } = await on.query<WaitingOpening>(
    `select id, business_id as "businessId", live, reference, bank, last_cause as cause,
        ${epochMs('created_at')} as "createdAtMs"
      from account where id = any (array(${text})) order by id`,
    values,
  )
  return rows
}

/** How many wait, up to a bound. */
export async function countInReview(
  on: Queryable,
  filter: OpeningFilter,
  max: number,
): Promise<number> {
  const { text, values } = inReview(filter, '', max)
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (${text}) waiting`,
    values,
  )
  return rows[0]?.count ?? 0
}

/** One range of a partial index for each mode, and for each business if the filter names some. */
function inReview({ businessIds, live }: OpeningFilter, after: string, limit: number) {
  const modes = live === undefined ? [true, false] : [live]
  const values: unknown[] = [limit, after, modes]
  if (businessIds !== undefined) values.push(businessIds)
  const businesses = businessIds === undefined ? '' : 'cross join unnest($4::text[]) as b(id)'
  const text = `select a.id from unnest($3::boolean[]) as m(live) ${businesses}
      cross join lateral (select id from account where live = m.live
        ${businessIds === undefined ? '' : 'and business_id = b.id'} and id > $2
        and status = 'PENDING' and opening_state = 'MANUAL_REVIEW' order by id limit $1) a
      order by a.id limit $1`
  return { text, values }
}

/** How many accounts of a mode wait for their bank to open them, by bank: of the first so many. */
export async function countPending(
  on: Queryable,
  live: boolean,
  max: number,
): Promise<ReadonlyMap<BankCode, number>> {
  const { rows } = await on.query<{ bank: BankCode; count: number }>(
    `select bank, count(*)::int as count from (
        select bank from account where live = $1 and status = 'PENDING' limit $2) pending
      group by bank`,
    [live, max],
  )
  return new Map(rows.map(({ bank, count }) => [bank, count]))
}
