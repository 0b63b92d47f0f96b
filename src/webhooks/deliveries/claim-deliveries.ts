import type { Pool } from 'pg'
import { type LogEntry, readPositions } from '../../events/read-log.ts'
import { bigintArray, textArray } from '../../postgres/binary-arrays.ts'
import { giveBack } from './complete-attempts.ts'
import type { Allotment } from './concurrency-limiter.ts'

/** A delivery that this process may attempt until its lease ends. */
export interface Claim {
  readonly id: string
  readonly endpointId: string
  /** How many attempts of its schedule were made before. */
  readonly attempts: number
  readonly fence: number
  readonly url: string
  /** How many requests its endpoint may get at once. */
  readonly concurrency: number
  /** The secrets that sign, encrypted, the newest first. */
  readonly secretsEncrypted: readonly Buffer[]
  readonly entry: LogEntry
}

/** A delivery that was claimed, and whose event is not kept any more. */
export type LostClaim = Pick<Claim, 'id' | 'fence'>

/** The claims of one endpoint. */
export interface ClaimRow {
  endpoint_id: string
  url: string
  /** How many requests it may get at once. */
  concurrency: number
  secrets_encrypted: Buffer[]
  /** Of each of its deliveries: see `readClaim`. */
  claimed: string
}

/** What is due now, and nobody's. A lease that has ended is nobody's either. */
const free = (now: string) =>
  `state = 'PENDING' and due_at <= ${now} and (leased_until is null or leased_until <= ${now})`

/** Those that sign for an endpoint now, the newest first. */
export const SECRETS_SEALED = (endpointId: string, now: string) =>
  `array(select sealed from webhook_secret s
    where s.endpoint_id = ${endpointId} and (s.expires_at is null or s.expires_at > ${now})
    order by s.number desc) as secrets_encrypted`

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
        select d.ctid from unnest($1::text[], $2::int8[]) as a(endpoint_id, share)
        cross join lateral (select from webhook_endpoint
          where id = a.endpoint_id and deleted_at is null and disabled_at is null offset 0) e
        cross join lateral (
          select ctid from webhook_delivery
          where endpoint_id = a.endpoint_id and ${free('$3')}
          order by due_at limit a.share for update skip locked
        ) d
      ), claimed as (
        update webhook_delivery set leased_until = $4, claims = claims + 1
        where ctid = any(array(select ctid from due))
        returning id, endpoint_id, position, attempts - schedule_from as attempts, claims
      ), told as (
        select endpoint_id, string_agg(concat_ws(' ', id, attempts, claims, position), ','
          order by position) as claimed from claimed group by endpoint_id
      )
      select t.*, e.url, e.concurrency, ${SECRETS_SEALED('t.endpoint_id', '$3')}
      from told t cross join lateral (
        select url, concurrency from webhook_endpoint where id = t.endpoint_id offset 0) e`,
    values: [
      textArray(allotments.map((allotment) => allotment.endpointId)),
      bigintArray(allotments.map((allotment) => BigInt(allotment.share))),
      new Date(nowMs),
      new Date(nowMs + leaseMs),
    ],
  })
  return readClaims(pool, rows)
}

/** Reads the events of claims. Those whose event is not kept any more are lost. */
export async function readClaims(
  pool: Pool,
  rows: readonly ClaimRow[],
): Promise<{ claims: Claim[]; lost: LostClaim[] }> {
  const claimed = rows.flatMap((row) => row.claimed.split(',').map((text) => readClaim(text, row)))
  // Each event once, however many endpoints it goes to.
  const positions = [...new Set(claimed.map((each) => each.position))].map(BigInt)
  const read = positions.length > 0 ? await readOrGiveBack(pool, positions, claimed) : []
  const entries = new Map(read.map((entry) => [`${entry.position}`, entry]))
  const claims: Claim[] = []
  const lost: LostClaim[] = []
  for (const { position, ...claim } of claimed) {
    const entry = entries.get(position)
    if (entry === undefined) lost.push(claim)
    else claims.push({ ...claim, entry })
  }
  return { claims, lost }
}

/** What is claimed and cannot be read is given back: nobody should wait for the end of its lease. */
async function readOrGiveBack(
  pool: Pool,
  positions: readonly bigint[],
  claimed: readonly LostClaim[],
): Promise<readonly LogEntry[]> {
  try {
    return await readPositions(pool, positions)
  } catch (error) {
    await giveBack(pool, claimed).catch(() => undefined)
    throw error
  }
}

/** One claim, of those of an endpoint, which come in one text: it is read sooner than many rows. */
function readClaim(text: string, row: ClaimRow) {
  const [id = '', attempts, fence, position = ''] = text.split(' ')
  return {
    id,
    endpointId: row.endpoint_id,
    attempts: Number(attempts),
    fence: Number(fence),
    url: row.url,
    concurrency: row.concurrency,
    secretsEncrypted: row.secrets_encrypted,
    position,
  }
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
    text: `with recursive walk(endpoint_id, number) as (
        (select endpoint_id, 1 from webhook_delivery
          where state = 'PENDING' and endpoint_id > $1 order by endpoint_id, due_at limit 1)
        union all
        select next.*, w.number + 1 from walk w cross join lateral (
          select endpoint_id from webhook_delivery
          where state = 'PENDING' and endpoint_id > w.endpoint_id
          order by endpoint_id, due_at limit 1) next
        where w.number < $3
      )
      select w.endpoint_id as id, e.concurrency, e.enabled and d.due is not null as due
      from walk w cross join lateral (
        select concurrency, deleted_at is null and disabled_at is null as enabled
        from webhook_endpoint where id = w.endpoint_id offset 0) e
      left join lateral (
        select true as due from webhook_delivery
        where endpoint_id = w.endpoint_id and ${free('$2')} order by due_at limit 1) d on e.enabled
      order by w.number`,
    values: [after, new Date(nowMs), limit],
  })
  return result.rows
}
