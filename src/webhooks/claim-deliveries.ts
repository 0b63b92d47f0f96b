import type { Pool } from 'pg'
import { type LogEntry, readPositions } from '../events/read-log.ts'
import { bigintArray, textArray } from '../store/binary.ts'
import type { Allotment } from './pacing.ts'

/** A delivery that this process may attempt until its lease ends. */
export interface Claim {
  readonly id: string
  readonly endpointId: string
  /** How many attempts of its schedule were made before. */
  readonly attempts: number
  readonly fence: number
  readonly url: string
  /** The secrets that sign, encrypted, the newest first. */
  readonly secretsSealed: readonly Buffer[]
  readonly entry: LogEntry
}

/** A delivery that was claimed, and whose event is not kept any more. */
export type LostClaim = Pick<Claim, 'id' | 'fence'>

interface ClaimRow {
  id: string
  endpoint_id: string
  attempts: number
  fence: number
  position: string
  /** Of the endpoint: in the first row of it alone. */
  url: string | null
  secrets_sealed: Buffer[] | null
}

/** Claims what is due, the oldest first, each endpoint's share at the most. */
export async function claimDeliveries(
  pool: Pool,
  allotments: readonly Allotment[],
  nowMs: number,
  leaseMs: number,
): Promise<{ claims: Claim[]; lost: LostClaim[] }> {
  // `any(array(…))` and `offset 0` keep the planner on index look-ups, whatever the statistics of
  // a queue, which is empty at one moment and full at another, make it believe.
  const { rows } = await pool.query<ClaimRow>({
    name: 'webhook-claim',
    text: `with due as (
        select d.id from unnest($1::text[], $2::int8[]) as a(endpoint_id, share)
        cross join lateral (select from webhook_endpoint
          where id = a.endpoint_id and deleted_at is null and disabled_at is null offset 0) e
        cross join lateral (
          select id from webhook_delivery
          where endpoint_id = a.endpoint_id and state = 'PENDING' and due_at <= $3
          order by due_at limit a.share for update skip locked
        ) d
      ), claimed as (
        update webhook_delivery set due_at = $4, fence = fence + 1
        where id = any(array(select id from due))
        returning id, endpoint_id, position, attempts - schedule_from as attempts, fence
      )
      select c.id, c.endpoint_id, c.attempts, c.fence, c.position, e.url, e.secrets_sealed
      from (select *, row_number() over (partition by endpoint_id order by position) as place
        from claimed) c
      left join lateral (select url, array(select sealed from webhook_secret s
          where s.endpoint_id = c.endpoint_id and (s.expires_at is null or s.expires_at > $3)
          order by s.number desc) as secrets_sealed
        from webhook_endpoint where id = c.endpoint_id and c.place = 1 offset 0) e on true
      order by c.endpoint_id, c.place`,
    values: [
      textArray(allotments.map((allotment) => allotment.endpointId)),
      bigintArray(allotments.map((allotment) => BigInt(allotment.share))),
      new Date(nowMs),
      new Date(nowMs + leaseMs),
    ],
  })
  // Each event once, however many endpoints it goes to.
  const positions = [...new Set(rows.map((row) => row.position))].map(BigInt)
  const read = positions.length > 0 ? await readPositions(pool, positions) : []
  const entries = new Map(read.map((entry) => [entry.position, entry]))
  const claims: Claim[] = []
  const lost: LostClaim[] = []
  let endpoint: Pick<Claim, 'url' | 'secretsSealed'> = { url: '', secretsSealed: [] }
  for (const row of rows) {
    if (row.url !== null) endpoint = { url: row.url, secretsSealed: row.secrets_sealed ?? [] }
    const { id, endpoint_id: endpointId, attempts, fence } = row
    const entry = entries.get(BigInt(row.position))
    if (entry === undefined) lost.push({ id, fence })
    else claims.push({ ...endpoint, id, endpointId, attempts, fence, entry })
  }
  return { claims, lost }
}

/** An endpoint with pending deliveries. */
export interface PendingEndpoint {
  readonly id: string
  /** How many requests it may get at once. */
  readonly concurrency: number
  /** Whether something may be sent to it now. */
  readonly due: boolean
}

/**
 * Walks over the endpoints that have something pending, in the order of their ids, by jumping from
 * one to the next in the index: what it costs does not depend on how much is pending.
 *
 * @param after an endpoint's id; '' to begin
 * @returns at most `limit` endpoints, and whether something may be sent to them now
 */
export async function walkPendingEndpoints(
  pool: Pool,
  after: string,
  nowMs: number,
  limit: number,
): Promise<PendingEndpoint[]> {
  const result = await pool.query<PendingEndpoint>({
    name: 'webhook-walk-endpoints',
    text: `with recursive walk(endpoint_id, due_at, number) as (
        (select endpoint_id, due_at, 1 from webhook_delivery
          where state = 'PENDING' and endpoint_id > $1 order by endpoint_id, due_at limit 1)
        union all
        select next.*, w.number + 1 from walk w cross join lateral (
          select endpoint_id, due_at from webhook_delivery
          where state = 'PENDING' and endpoint_id > w.endpoint_id
          order by endpoint_id, due_at limit 1) next
        where w.number < $3
      )
      select w.endpoint_id as id, e.concurrency, e.enabled and w.due_at <= $2 as due
      from walk w cross join lateral (
        select concurrency, deleted_at is null and disabled_at is null as enabled
        from webhook_endpoint where id = w.endpoint_id offset 0) e
      order by w.number`,
    values: [after, new Date(nowMs), limit],
  })
  return result.rows
}
