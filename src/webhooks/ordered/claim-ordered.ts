import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import { DEADLINES } from '../../postgres/client.ts'
import {
  type Claim,
  type ClaimRow,
  type ClaimTerms,
  claimDeliveries,
  readClaims,
  selectClaimed,
} from '../deliveries/claim-deliveries.ts'
import type { Allotment } from '../deliveries/concurrency-limiter.ts'
import { inCte } from '../deliveries/delivery-keys.ts'
import type { ClaimKey } from '../deliveries/end-claims.ts'
import { lastPosition } from '../dispatch/dispatcher-position.ts'

/** `ordered_from` moves by more positions than this: so most claims do not write it. */
const MOVED_MIN = 500

/** Claims what was allotted, of the ordered endpoints by itself. */
export async function claimAllotted(
  pool: Pool,
  allotments: readonly Allotment[],
  ordered: ReadonlySet<string>,
  terms: ClaimTerms,
): Promise<{ claims: Claim[]; lost: ClaimKey[] }> {
  const [inOrder, others] = [
    allotments.filter(({ endpointId }) => ordered.has(endpointId)),
    allotments.filter(({ endpointId }) => !ordered.has(endpointId)),
  ]
  const first =
    others.length > 0 ? await claimDeliveries(pool, others, terms) : { claims: [], lost: [] }
  if (inOrder.length === 0) return first
  const second = await claimOrdered(
    pool,
    inOrder.map(({ endpointId }) => endpointId),
    terms,
  )
  return { claims: [...first.claims, ...second.claims], lost: [...first.lost, ...second.lost] }
}

/**
 * Claims the first pending delivery of each ordered endpoint, if it is due and not leased. Two instances
 * cannot claim two deliveries of one endpoint: both choose the first of their snapshot, and the second
 * one finds it leased.
 *
 * The first one is looked for in the index of positions from `ordered_from`, before which none is
 * pending. A claim moves that forward, unless a delivery is sent again meanwhile: that moves it back, to
 * another value than before (`lowerOrderedFrom`).
 */
export async function claimOrdered(
  pool: Pool,
  endpointIds: readonly string[],
  { nowMs, leaseMs, pendingFrom }: ClaimTerms,
): Promise<{ claims: Claim[]; lost: ClaimKey[] }> {
  // `offset 0` keeps the state out of the scan, which would otherwise read all pending ones and sort.
  const { rows } = await pool.query<ClaimRow>({
    name: 'webhook-claim-ordered',
    query_timeout: DEADLINES.hot,
    text: `with head as materialized (
        select e.id as endpoint_id, e.ordered_from, d.id, d.position
        from unnest($1::text[]) as a(endpoint_id)
        cross join lateral (select id, ordered_from from webhook_endpoint
          where id = a.endpoint_id and deleted_at is null and disabled_at is null and ordered
          offset 0) e
        cross join lateral (
          select id, position from (
            select id, position, state from webhook_delivery
            where endpoint_id = a.endpoint_id and position >= greatest($4, e.ordered_from)
            order by position offset 0
          ) of_endpoint where state = 'PENDING' limit 1
        ) d
      ), claimed as (
        update webhook_delivery d set leased_until = $3, claims = d.claims + 1
        where ${inCte('head', 'd')} and d.state = 'PENDING' and d.due_at <= $2
          and (d.leased_until is null or d.leased_until <= $2)
        returning d.id, d.endpoint_id, d.position, d.previous_sequence,
          d.attempts - d.schedule_from as attempts, d.claims
      ), moved as (
        update webhook_endpoint e set ordered_from = h.position
        from head h where e.id = h.endpoint_id and e.ordered_from = h.ordered_from
          and h.position > h.ordered_from + ${MOVED_MIN}
      ), ${selectClaimed('$2')}`,
    values: [endpointIds, new Date(nowMs), new Date(nowMs + leaseMs), pendingFrom],
  })
  return readClaims(pool, rows)
}

/**
 * SQL: moves `ordered_from` back before deliveries that become pending again, always to another value.
 *
 * @param first SQL that selects `endpoint_id`, and `first`, the first of their positions
 */
export const lowerOrderedFrom = (first: string) => `update webhook_endpoint e
  set ordered_from = least(e.ordered_from, again.first) - 1
  from (${first}) again where e.id = again.endpoint_id and e.ordered and again.first is not null`

/** A position before all pending deliveries of an endpoint, which becomes ordered. */
export async function firstPending(em: EntityManager, endpointId: string): Promise<bigint> {
  const [row] = await em.execute<{ position: string }[]>(
    `select coalesce(
      (select min(position) from webhook_delivery where endpoint_id = ? and state = 'PENDING'),
      (${lastPosition()})) as position`,
    [endpointId],
  )
  return BigInt(row?.position ?? 0)
}
