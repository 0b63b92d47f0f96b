import type { Pool } from 'pg'
import { type LogEntry, readPositions } from '../../events/read-log.ts'
import {
  bigintArray,
  integerArray,
  textArray,
  timestampArray,
} from '../../postgres/binary-arrays.ts'
import { DEADLINES } from '../../postgres/client.ts'
import { isRetryable } from '../../postgres/is-retryable.ts'
import type { RequestFormat } from '../endpoints/endpoint.ts'
import type { Allotment, LimitedEndpoint } from './concurrency-limiter.ts'
import { type DeliveryKey, positionRange } from './delivery.ts'

/** A delivery that this process may attempt until its lease ends. */
export interface Claim extends ClaimKey {
  readonly endpointId: string
  /** The number of attempts already made in this retry schedule. */
  readonly attempts: number
  readonly url: string
  /** The maximum number of concurrent requests to its endpoint. */
  readonly concurrency: number
  /** The version of the `Connection`; 0: the endpoint never had one. */
  readonly connectionVersion: number
  /** Whether the next event waits until this one is acknowledged. The delivery is then retried without an end. */
  readonly ordered: boolean
  /** The active signing secrets, newest first. */
  readonly secrets: readonly EncryptedSecret[]
  readonly format: RequestFormat
  readonly entry: LogEntry
  /** The sequence number of the previous event for the endpoint; 0 for the first. */
  readonly previousSequence: number
}

/** A signing secret of an endpoint. */
interface EncryptedSecret {
  readonly number: number
  readonly encrypted: Buffer
  /** Whether it signs only test events. */
  readonly isNext: boolean
}

/** The claims of one endpoint. */
export interface ClaimRow {
  endpoint_id: string
  url: string
  /** The maximum number of concurrent requests. */
  concurrency: number
  connection_version: number
  /** The most requests a second; 0: no limit. */
  rate_limit: number
  /** Whether its events are sent one at a time. */
  ordered: boolean
  profile: RequestFormat['profile']
  legacy_signature: RequestFormat['legacySignature']
  event_name: RequestFormat['eventName']
  payer_as_array: boolean
  /**
   * The active signing secrets, newest first: the number in four bytes, negative if it signs only test events, then the
   * ciphertext.
   */
  secrets: Buffer[]
  /** Its deliveries by position. One value is faster than many rows. A position is a text, because it is a bigint. */
  claimed: readonly (readonly [
    id: string,
    attempts: number,
    fence: number,
    position: string,
    previousSequence: number,
  ])[]
}

/** When to claim, and where. */
export interface ClaimTerms {
  readonly nowMs: number
  readonly leaseMs: number
  /** Deliveries from this position on. */
  readonly pendingFrom: bigint
}

/** Claims due deliveries of endpoints that are not ordered, oldest first, up to each endpoint's share. */
export async function claimDeliveries(
  pool: Pool,
  allotments: readonly Allotment[],
  { nowMs, leaseMs, pendingFrom }: ClaimTerms,
): Promise<{ claims: Claim[]; lost: ClaimKey[] }> {
  // `any(array(…))` and `offset 0` keep the planner on index lookups, whatever the statistics say:
  // they are often wrong for a queue, which is empty at one moment and full the next.
  const { rows } = await pool.query<ClaimRow>({
    name: 'webhook-claim',
    query_timeout: DEADLINES.hot,
    text: `with due as (
        select d.* from unnest($1::text[], $2::int8[]) as a(endpoint_id, share)
        cross join lateral (select from webhook_endpoint
          where id = a.endpoint_id and deleted_at is null and disabled_at is null and not ordered
          offset 0) e
        cross join lateral (
          select id, position from webhook_delivery
          where endpoint_id = a.endpoint_id and position >= $5 and state = 'PENDING' and due_at <= $3
            and (leased_until is null or leased_until <= $3)
          order by due_at limit a.share for no key update skip locked
        ) d
      ), claimed as (
        update webhook_delivery set leased_until = $4, claims = claims + 1
        where id = any(array(select id from due))
          and position between (select min(position) from due) and (select max(position) from due)
        returning id, endpoint_id, position, previous_sequence, attempts - schedule_from as attempts,
          claims
      ), grouped as (
        select endpoint_id, json_agg(json_build_array(id, attempts, claims, position::text, previous_sequence)
          order by position) as claimed from claimed group by endpoint_id
      )
      select g.*, e.url, e.concurrency, e.connection_version, e.rate_limit, e.ordered, e.profile,
        e.legacy_signature, e.event_name, e.payer_as_array,
        array(select int4send(case when s.is_next then -s.number else s.number end) || s.secret_encrypted
          from webhook_secret s
          where s.endpoint_id = g.endpoint_id and (s.expires_at is null or s.expires_at > $3)
          order by s.number desc) as secrets
      from grouped g cross join lateral (select * from webhook_endpoint where id = g.endpoint_id offset 0) e`,
    values: [
      textArray(allotments.map((allotment) => allotment.endpointId)),
      bigintArray(allotments.map((allotment) => BigInt(allotment.share))),
      new Date(nowMs),
      new Date(nowMs + leaseMs),
      pendingFrom,
    ],
  })
  return readClaims(pool, rows)
}

/** Reads the events of claims. Claims whose event retention has deleted are returned as lost. */
export async function readClaims(
  pool: Pool,
  rows: readonly ClaimRow[],
): Promise<{ claims: Claim[]; lost: ClaimKey[] }> {
  const claimed = rows.flatMap((row) => {
    const secrets = row.secrets.map(readSecret)
    const format = readFormat(row)
    return row.claimed.map(([id, attempts, fence, position, previousSequence]) => ({
      id,
      attempts,
      fence,
      position: BigInt(position),
      previousSequence,
      endpointId: row.endpoint_id,
      url: row.url,
      concurrency: row.concurrency,
      connectionVersion: row.connection_version,
      ordered: row.ordered,
      secrets,
      format,
    }))
  })
  // Each event is read once, however many endpoints it goes to.
  const positions = [...new Set(claimed.map((each) => each.position))]
  const read = positions.length > 0 ? await readOrRelease(pool, positions, claimed) : []
  const entries = new Map(read.map((entry) => [entry.position, entry]))
  const claims: Claim[] = []
  const lost: ClaimKey[] = []
  for (const claim of claimed) {
    const entry = entries.get(claim.position)
    if (entry === undefined) lost.push(claim)
    else claims.push({ ...claim, entry })
  }
  return { claims, lost }
}

/** Releases the claims if their events cannot be read, so that they do not wait for the lease. */
async function readOrRelease(
  pool: Pool,
  positions: readonly bigint[],
  claimed: readonly ClaimKey[],
): Promise<readonly LogEntry[]> {
  try {
    return await readPositions(pool, positions)
  } catch (error) {
    await releaseClaims(pool, claimed).catch(() => undefined)
    throw error
  }
}

function readSecret(bytes: Buffer): EncryptedSecret {
  const number = bytes.readInt32BE(0)
  return { number: Math.abs(number), encrypted: bytes.subarray(4), isNext: number < 0 }
}

function readFormat(row: ClaimRow): RequestFormat {
  return {
    profile: row.profile,
    legacySignature: row.legacy_signature,
    eventName: row.event_name,
    payerAsArray: row.payer_as_array,
  }
}

/** An endpoint with pending deliveries. */
export interface PendingEndpoint extends LimitedEndpoint {
  /** Whether a delivery to it is due and it is enabled. */
  readonly due: boolean
}

interface PendingPage {
  /** An endpoint's id; '' for the first page. */
  readonly after: string
  readonly nowMs: number
  /** Deliveries from this position on. */
  readonly pendingFrom: bigint
  readonly limit: number
}

/**
 * Lists the endpoints that have pending deliveries, in the order of their ids. It skips from one
 * endpoint to the next in the index, so that its cost does not depend on the number of deliveries.
 *
 * @returns at most `limit` endpoints
 */
export async function listPendingEndpoints(
  pool: Pool,
  { after, nowMs, pendingFrom, limit }: PendingPage,
): Promise<PendingEndpoint[]> {
  const result = await pool.query<PendingEndpoint>({
    name: 'webhook-list-pending-endpoints',
    text: `with recursive pending(endpoint_id, number) as (
        (select endpoint_id, 1 from webhook_delivery
          where state = 'PENDING' and position >= $4 and endpoint_id > $1 order by endpoint_id, due_at limit 1)
        union all
        select next.*, p.number + 1 from pending p cross join lateral (
          select endpoint_id from webhook_delivery
          where state = 'PENDING' and position >= $4 and endpoint_id > p.endpoint_id
          order by endpoint_id, due_at limit 1) next
        where p.number < $3
      )
      select p.endpoint_id as id,
        case when e.ordered then 1 else e.concurrency end as concurrency,
        e.rate_limit as "rateLimit", e.ordered, e.enabled and d.due is not null as due
      from pending p cross join lateral (
        select concurrency, rate_limit, ordered, deleted_at is null and disabled_at is null as enabled
        from webhook_endpoint where id = p.endpoint_id offset 0) e
      left join lateral (
        select true as due from webhook_delivery
        where endpoint_id = p.endpoint_id and position >= $4 and state = 'PENDING' and due_at <= $2
            and (leased_until is null or leased_until <= $2)
        order by due_at limit 1) d on e.enabled
      order by p.number`,
    values: [after, new Date(nowMs), limit, pendingFrom],
  })
  return result.rows
}

/** Identifies a claim: its delivery, and its fence. */
export interface ClaimKey extends DeliveryKey {
  readonly fence: number
}

/** Releases claims that have not ended: any instance may claim their deliveries at once. */
export async function releaseClaims(pool: Pool, claims: readonly ClaimKey[]): Promise<void> {
  await pool.query({
    name: 'webhook-release-claims',
    text: `update webhook_delivery d set leased_until = null, claims = d.claims + 1
      from unnest($1::text[], $2::int4[]) as i(id, claim)
      where d.id = any($1) and d.position between $3 and $4 and d.id = i.id and d.claims = i.claim`,
    values: toArrays(claims),
  })
}

/** Marks claimed deliveries that cannot be sent as FAILED. Claims that have ended are left alone. */
export async function failClaims(
  pool: Pool,
  claims: readonly ClaimKey[],
  nowMs: number,
  failure: string,
): Promise<void> {
  await pool.query({
    name: 'webhook-fail-claims',
    text: `update webhook_delivery d
      set state = 'FAILED', completed_at = $5, failure = $6, leased_until = null,
        claims = d.claims + 1
      from unnest($1::text[], $2::int4[]) as i(id, claim)
      where d.id = any($1) and d.position between $3 and $4 and d.id = i.id and d.claims = i.claim`,
    values: [...toArrays(claims), new Date(nowMs), failure],
  })
}

const toArrays = (claims: readonly ClaimKey[]) => [
  textArray(claims.map((claim) => claim.id)),
  integerArray(claims.map((claim) => claim.fence)),
  ...positionRange(claims),
]

/** The claim that was asked for. */
interface ClaimAttempt {
  readonly endpointIds: readonly string[]
  /** In milliseconds since the Unix epoch. */
  readonly leasedUntilMs: number
}

/** Claims whose result did not arrive: the statement may have taken effect. */
export interface UnclearClaims {
  /** Runs a statement that claims deliveries of the endpoints of `attempt`. */
  watch<T>(attempt: ClaimAttempt, claim: () => Promise<T>): Promise<T>
  /** Releases these claims, which would otherwise wait until the lease ends. Cheap if there are none. */
  release(): Promise<void>
}

/** The most deliveries of an endpoint that are looked at, in the order in which they are due. */
const LOOKED_AT_MAX = 10_000

export function createUnclearClaims(pool: Pool): UnclearClaims {
  let unclear: ClaimAttempt[] = []
  return {
    async watch(attempt, claim) {
      try {
        return await claim()
      } catch (error) {
        // Any other error has rolled the statement back.
        if (isRetryable(error)) unclear.push(attempt)
        throw error
      }
    },
    async release() {
      if (unclear.length === 0) return
      const released = unclear
      await releaseUnclear(pool, released)
      unclear = unclear.slice(released.length)
    },
  }
}

/**
 * A lease is recognised by its end. If another process has claimed deliveries of the same endpoint in the same
 * millisecond, these may be sent twice, with the same id.
 */
async function releaseUnclear(pool: Pool, unclear: readonly ClaimAttempt[]): Promise<void> {
  await pool.query({
    name: 'webhook-release-unclear',
    text: `with unclear as (
        select d.id, d.position from unnest($1::text[]) as e(id)
        cross join lateral (select id, position, leased_until from webhook_delivery
          where endpoint_id = e.id and state = 'PENDING' order by due_at limit ${LOOKED_AT_MAX}) d
        where d.leased_until = any($2::timestamptz[])
      )
      update webhook_delivery set leased_until = null, claims = claims + 1 where id = any(array(select id from unclear))
          and position between (select min(position) from unclear) and (select max(position) from unclear)`,
    values: [
      textArray([...new Set(unclear.flatMap(({ endpointIds }) => endpointIds))]),
      timestampArray(unclear.map(({ leasedUntilMs }) => leasedUntilMs)),
    ],
  })
}
