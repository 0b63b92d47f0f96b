import { boundedScan } from '../../postgres/bounded-scan.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'

/** Which endpoints to find, of those that are not deleted; an undefined field does not filter. */
export interface EndpointFilter {
  readonly businessIds: readonly string[] | undefined
  readonly live?: boolean | undefined
  readonly enabled?: boolean | undefined
  /** Whether the latest attempt failed. */
  readonly failing?: boolean | undefined
}

/** How many endpoints a page of the list of all businesses reads at most. */
const ROWS_MAX = 2_000

/** The ids of one page, newest first, and the last one that was read if that is not the end. */
export interface FoundEndpoints {
  readonly ids: readonly string[]
  readonly readUpTo: string | undefined
}

export async function findEndpoints(
  pool: Queryable,
  filter: EndpointFilter,
  after: string | undefined,
  limit: number,
): Promise<FoundEndpoints> {
  const values: unknown[] = [limit]
  const bind = (value: unknown) => `$${values.push(value)}`
  const range = after === undefined ? 'true' : `id < ${bind(after)}`
  const conditions = conditionsOf(filter).join(' and ')
  const { businessIds } = filter
  if (businessIds !== undefined) {
    // One index range for each business, which has few endpoints.
    const { rows } = await pool.query<{ id: string }>(
      `select e.id from unnest(${bind(businessIds)}::text[]) as b(id) cross join lateral (
          select id from webhook_endpoint where business_id = b.id and ${range} and ${conditions}
          order by id desc limit $1) e
        order by e.id desc limit $1`,
      values,
    )
    return { ids: rows.map(({ id }) => id), readUpTo: undefined }
  }
  const scan = boundedScan({
    columns: '*',
    from: 'webhook_endpoint',
    key: 'id',
    order: 'desc',
    range,
    filter: conditions,
    limit: '$1',
    rowsMax: ROWS_MAX,
  })
  const { rows } = await pool.query<{ id: string | null; read_up_to: string | null }>(
    `with ${scan} select page.id, edge.read_up_to from edge left join page on true
      order by page.id desc`,
    values,
  )
  return {
    ids: rows.flatMap(({ id }) => (id === null ? [] : [id])),
    readUpTo: rows[0]?.read_up_to ?? undefined,
  }
}

function conditionsOf({ live, enabled, failing }: EndpointFilter): readonly string[] {
  return [
    'deleted_at is null',
    ...(live === undefined ? [] : [`live = ${live}`]),
    ...(enabled === undefined ? [] : [`(disabled_at is null) = ${enabled}`]),
    ...(failing === undefined ? [] : [`(failing_since is not null) = ${failing}`]),
  ]
}
