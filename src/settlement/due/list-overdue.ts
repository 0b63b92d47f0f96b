import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { BalanceKey } from '../settlement.ts'

/** A balance whose oldest payment has been due for too long. */
interface OverdueBalance extends BalanceKey {
  readonly dueAtMs: number
  /** Failed attempts in a row. */
  readonly failures: number
}

/** Which balances; undefined: all. */
interface OverdueFilter {
  readonly businessIds: readonly string[] | undefined
  readonly live: boolean | undefined
  /** Due before this time. */
  readonly byMs: number
}

/** A place in the list. */
interface Place {
  readonly dueAtMs: number
  readonly businessId: string
  readonly live: boolean
}

const FIRST: Place = { dueAtMs: 0, businessId: '', live: false }

/** Balances that should have been settled, those that have been due for longest first. */
export async function listOverdue(
  on: Queryable,
  filter: OverdueFilter,
  after: Place | undefined,
  limit: number,
): Promise<readonly OverdueBalance[]> {
  const { text, values } = overdue(filter, after ?? FIRST, limit)
  const { rows } = await on.query<OverdueBalance>(
    `select business_id as "businessId", live, ${epochMs('due_at')} as "dueAtMs", failures
      from (${text}) d order by due_at, business_id, live`,
    values,
  )
  return rows
}

/** How many there are, up to a bound. */
export async function countOverdueBalances(
  on: Queryable,
  filter: OverdueFilter,
  max: number,
): Promise<number> {
  const { text, values } = overdue(filter, FIRST, max)
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (${text}) d`,
    values,
  )
  return rows[0]?.count ?? 0
}

function overdue({ businessIds, live, byMs }: OverdueFilter, after: Place, limit: number) {
  const values: unknown[] = [limit, new Date(byMs), new Date(after.dueAtMs)]
  values.push(after.businessId, after.live)
  const bind = (value: unknown) => `$${values.push(value)}`
  const where = [
    'due_at <= $2',
    '(due_at, business_id, live) > ($3, $4, $5::boolean)',
    ...(businessIds === undefined ? [] : [`business_id = any (${bind(businessIds)}::text[])`]),
    ...(live === undefined ? [] : [`live = ${live}`]),
  ]
  const text = `select * from settlement_due where ${where.join(' and ')}
      order by due_at, business_id, live limit $1`
  return { text, values }
}

/** The balance that is due first; undefined: nothing waits for settlement. */
export async function findFirstDue(
  on: Queryable,
  { businessIds, live }: { readonly businessIds: readonly string[] | undefined; live: boolean },
): Promise<OverdueBalance | undefined> {
  const { text, values } = overdue({ businessIds, live, byMs: FAR_MS }, FIRST, 1)
  const { rows } = await on.query<OverdueBalance>(
    `select business_id as "businessId", live, ${epochMs('due_at')} as "dueAtMs", failures
      from (${text}) d`,
    values,
  )
  return rows[0]
}

/** After every time that a payment is due. */
const FAR_MS = Date.UTC(2200, 0)
