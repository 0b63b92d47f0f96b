import { ENDPOINTS_MAX } from '../endpoints/endpoint.ts'
import type { EndpointContext } from '../endpoints/endpoint-context.ts'
import { type EndpointStatistics, readStatistics } from './endpoint-statistics.ts'
import { findEndpoints } from './find-endpoints.ts'

interface Request {
  /** Empty: all endpoints of the business. */
  readonly endpointIds: readonly string[]
  /** Empty: any business that the caller may see. */
  readonly businessId: string
  /** The businesses that the caller may see; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
}

/** The statistics of the requested endpoints that are not deleted, and that the caller may see. */
export async function getEndpointStatistics(
  context: EndpointContext,
  request: Request,
): Promise<readonly EndpointStatistics[]> {
  const { pool, clock } = context
  return readStatistics(pool, await visibleIds(context, request), clock.now())
}

async function visibleIds(
  { pool }: EndpointContext,
  { endpointIds, businessId, allowed }: Request,
): Promise<readonly string[]> {
  if (endpointIds.length === 0) {
    const filter = { businessIds: [businessId] }
    return (await findEndpoints(pool, filter, undefined, 2 * ENDPOINTS_MAX)).ids
  }
  const { rows } = await pool.query<{ id: string; business_id: string }>(
    'select id, business_id from webhook_endpoint where id = any ($1) and deleted_at is null',
    [endpointIds],
  )
  const owners = new Map(rows.map((row) => [row.id, row.business_id]))
  const isVisible = (owner: string) =>
    (businessId === '' || owner === businessId) && (allowed === undefined || allowed.has(owner))
  return endpointIds.filter((id) => {
    const owner = owners.get(id)
    return owner !== undefined && isVisible(owner)
  })
}
