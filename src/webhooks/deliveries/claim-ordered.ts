import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { DEADLINES } from '../../postgres/client.ts'
import type { ClaimKey, UnclearClaims } from './claim-deliveries.ts'
import {
  type Claim,
  type ClaimRow,
  type ClaimTerms,
  claimDeliveries,
  readClaims,
} from './claim-deliveries.ts'
import type { Allotment } from './concurrency-limiter.ts'

/** A claim moves `ordered_from` only by more positions than this, so most claims do not write it. */
const MOVED_MIN = 500

/**
 * The most deliveries of an endpoint that one claim scans for the first pending delivery. After the redelivery of an old
 * event, many completed deliveries may follow it: each claim then moves `ordered_from` by this many.
 */
export const SCANNED_MAX = 10_000

/**
 * Claims the allotted deliveries, with a statement of its own for ordered endpoints. If only that statement fails, the
 * error is logged, and the claims of the other endpoints are returned.
 */
export async function claimAllotted(
  pool: Pool,
  allotments: readonly Allotment[],
  ordered: ReadonlySet<string>,
  terms: ClaimTerms,
  { log, unclear }: { readonly log: Logger; readonly unclear: UnclearClaims },
): Promise<{ claims: Claim[]; lost: ClaimKey[] }> {
  const leasedUntilMs = terms.nowMs + terms.leaseMs
  const others = allotments.filter(({ endpointId }) => !ordered.has(endpointId))
  const otherIds = others.map(({ endpointId }) => endpointId)
  const first =
    others.length > 0
      ? await unclear.watch({ endpointIds: otherIds, leasedUntilMs }, () =>
          claimDeliveries(pool, others, terms),
        )
      : { claims: [], lost: [] }
  const endpointIds = allotments
    .map(({ endpointId }) => endpointId)
    .filter((endpointId) => ordered.has(endpointId))
  if (endpointIds.length === 0) return first
  try {
    const second = await unclear.watch({ endpointIds, leasedUntilMs }, () =>
      claimOrdered(pool, endpointIds, terms),
    )
    return { claims: [...first.claims, ...second.claims], lost: [...first.lost, ...second.lost] }
  } catch (error) {
    if (first.claims.length + first.lost.length === 0) throw error
    log.error({ err: error }, 'deliveries of ordered endpoints could not be claimed')
    return first
  }
}

/**
 * Claims the first pending delivery of each ordered endpoint, if it is due and not leased. Two instances cannot claim two
 * deliveries of one endpoint: both choose the first delivery of their snapshot, and the second instance finds it leased.
 *
 * The statement scans the index of positions from `ordered_from`, before which no delivery is pending. A claim moves
 * `ordered_from` forward, unless a redelivery changes it in the meantime: a redelivery moves it back, always to another
 * value (`redeliver.ts`). If another transaction has locked the endpoint, the claim does not wait; a later claim moves it.
 */
export async function claimOrdered(
  pool: Pool,
  endpointIds: readonly string[],
  { nowMs, leaseMs }: Pick<ClaimTerms, 'nowMs' | 'leaseMs'>,
): Promise<{ claims: Claim[]; lost: ClaimKey[] }> {
  // The inner scan has a limit and no condition on the state. With that condition, PostgreSQL could read and sort all
  // pending deliveries.
  const { rows } = await pool.query<ClaimRow>({
    name: 'webhook-claim-ordered',
    query_timeout: DEADLINES.hot,
    text: `with head as materialized (
        select e.id as endpoint_id, e.ordered_from, d.id, d.position, coalesce(d.position, (
          select position from webhook_delivery
          where endpoint_id = a.endpoint_id and position >= e.ordered_from
          order by position offset ${SCANNED_MAX - 1} limit 1)) as reached
        from unnest($1::text[]) as a(endpoint_id)
        cross join lateral (select id, ordered_from from webhook_endpoint
          where id = a.endpoint_id and deleted_at is null and disabled_at is null and ordered
          offset 0) e
        left join lateral (
          select id, position from (
            select id, position, state from webhook_delivery
            where endpoint_id = a.endpoint_id and position >= e.ordered_from
            order by position limit ${SCANNED_MAX}
          ) of_endpoint where state = 'PENDING' limit 1
        ) d on true
      ), claimed as (
        update webhook_delivery d set leased_until = $3, claims = d.claims + 1
        where d.id = any(array(select id from head))
          and d.position between (select min(position) from head) and (select max(position) from head)
          and d.state = 'PENDING' and d.due_at <= $2
          and (d.leased_until is null or d.leased_until <= $2)
        returning d.id, d.endpoint_id, d.position, d.previous_sequence,
          d.attempts - d.schedule_from as attempts, d.claims
      ), moved as (
        update webhook_endpoint e set ordered_from = h.reached
        from head h cross join lateral (select id from webhook_endpoint
          where id = h.endpoint_id and ordered_from = h.ordered_from for no key update skip locked) w
        where e.id = w.id and h.reached > h.ordered_from + ${MOVED_MIN}
      ), grouped as (
        select endpoint_id, json_agg(json_build_array(id, attempts, claims, position::text, previous_sequence)
          order by position) as claimed from claimed group by endpoint_id
      )
      select g.*, e.url, e.concurrency, e.connection_version, e.rate_limit, e.ordered, e.profile,
        e.legacy_signature, e.event_name, e.payer_as_array,
        array(select int4send(case when s.is_next then -s.number else s.number end) || s.secret_encrypted
          from webhook_secret s
          where s.endpoint_id = g.endpoint_id and (s.expires_at is null or s.expires_at > $2)
          order by s.number desc) as secrets
      from grouped g cross join lateral (select * from webhook_endpoint where id = g.endpoint_id offset 0) e`,
    values: [endpointIds, new Date(nowMs), new Date(nowMs + leaseMs)],
  })
  return readClaims(pool, rows)
}

/** A position before all pending deliveries of an endpoint, which becomes ordered. */
export async function firstPending(em: EntityManager, endpointId: string): Promise<bigint> {
  const [row] = await em.execute<{ position: string }[]>(
    `select coalesce(
      (select min(position) from webhook_delivery where endpoint_id = ? and state = 'PENDING'),
      (select position from webhook_dispatcher order by position desc limit 1)) as position`,
    [endpointId],
  )
  return BigInt(row?.position ?? 0)
}
