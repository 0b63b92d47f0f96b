import type { BusinessScope } from '../../auth/caller.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { DisabledReason } from './endpoint.ts'

/** An endpoint whose attempts fail, or that was disabled because they did. */
interface UnhealthyEndpoint {
  readonly id: string
  readonly businessId: string
  readonly live: boolean
  readonly url: string
  readonly description: string
  /** Null: it is enabled. */
  readonly disabledReason: DisabledReason | null
  /** When it began to fail, or was disabled. */
  readonly sinceMs: number
}

/** The expressions of the index. */
const SINCE = 'coalesce(failing_since, disabled_at)'
const UNHEALTHY = `deleted_at is null
  and (disabled_at is null and failing_since is not null or disabled_reason <> 'REQUESTED')`

/** Unhealthy endpoints, the longest unhealthy first. @param after the last endpoint of the previous page */
export async function listUnhealthy(
  on: Queryable,
  filter: BusinessScope,
  after: { readonly sinceMs: number; readonly id: string },
  limit: number,
): Promise<readonly UnhealthyEndpoint[]> {
  const { text, values } = unhealthy(filter, after, limit)
  const { rows } = await on.query<UnhealthyEndpoint>(
    `select id, business_id as "businessId", live, url, description, disabled_reason as "disabledReason",
        round(date_part('epoch', ${SINCE}) * 1000) as "sinceMs"
      from (${text}) e order by ${SINCE}, id`,
    values,
  )
  return rows
}

/** Counts unhealthy endpoints, up to `max`. */
export async function countUnhealthy(
  on: Queryable,
  filter: BusinessScope,
  max: number,
): Promise<number> {
  const { text, values } = unhealthy(filter, { sinceMs: 0, id: '' }, max)
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (${text}) e`,
    values,
  )
  return rows[0]?.count ?? 0
}

/** Counts the endpoints that fail, or were disabled because they did, by mode: up to `max` of each mode. */
export async function countUnhealthyByState(
  on: Queryable,
  max: number,
): Promise<readonly { state: 'failing' | 'disabled'; live: boolean; count: number }[]> {
  const { rows } = await on.query({
    name: 'webhook-count-unhealthy',
    text: `select case when disabled_at is null then 'failing' else 'disabled' end as state, live,
        count(*)::int as count
      from unnest(array[true, false]) as m(live) cross join lateral (
        select e.disabled_at from webhook_endpoint e where e.live = m.live and ${UNHEALTHY}
        order by ${SINCE}, id limit $1) found group by 1, 2`,
    values: [max],
  })
  return rows
}

/** How many endpoints a business has in a mode, and how many of them fail or are disabled. */
export async function countByState(
  on: Queryable,
  { businessId, live }: { readonly businessId: string; readonly live: boolean },
): Promise<{ readonly endpoints: number; readonly failing: number; readonly disabled: number }> {
  const { rows } = await on.query({
    name: 'webhook-count-endpoints',
    text: `select count(*)::int as endpoints,
        count(*) filter (where disabled_at is null and failing_since is not null)::int as failing,
        count(*) filter (where disabled_at is not null)::int as disabled
      from webhook_endpoint where business_id = $1 and live = $2 and deleted_at is null`,
    values: [businessId, live],
  })
  return rows[0]
}

/** SQL: one range of the index for each mode, or the few endpoints of each business. */
function unhealthy(
  { businessIds, live }: BusinessScope,
  after: { readonly sinceMs: number; readonly id: string },
  limit: number,
) {
  const modes = live === undefined ? [true, false] : [live]
  const values: unknown[] = [limit, new Date(after.sinceMs), after.id, modes]
  if (businessIds !== undefined) values.push(businessIds)
  const oldest = `order by ${SINCE}, id limit $1`
  const businesses = businessIds === undefined ? '' : 'cross join unnest($5::text[]) as b(id)'
  const text = `select e.* from unnest($4::boolean[]) as m(live) ${businesses}
      cross join lateral (select * from webhook_endpoint where live = m.live
        ${businessIds === undefined ? '' : 'and business_id = b.id'} and ${UNHEALTHY}
        and (${SINCE}, id) > ($2, $3) ${oldest}) e ${oldest}`
  return { text, values }
}
