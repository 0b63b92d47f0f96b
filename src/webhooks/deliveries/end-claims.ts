import type { Pool } from 'pg'
import { integerArray, textArray, timestampArray } from '../../postgres/binary-arrays.ts'
import { isRetryable } from '../../postgres/is-retryable.ts'
import { type DeliveryKey, inCte, positionRange } from './delivery.ts'

/** Identifies a claim: its delivery, and its fence. */
export interface ClaimKey extends DeliveryKey {
  readonly fence: number
}

/** Releases claims: any instance may claim their deliveries at once. */
export async function releaseClaims(pool: Pool, claims: readonly ClaimKey[]): Promise<void> {
  await pool.query({
    name: 'webhook-release-claims',
    text: `update webhook_delivery d set leased_until = null, claims = d.claims + 1
      ${OF_CLAIMS}`,
    values: toArrays(claims),
  })
}

/** Marks claimed deliveries that cannot be sent as FAILED. */
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
      ${OF_CLAIMS}`,
    values: [...toArrays(claims), new Date(nowMs), failure],
  })
}

/** Claims that have ended are left alone. */
const OF_CLAIMS = `from unnest($1::text[], $2::int4[]) as i(id, claim)
  where d.id = any($1) and d.position between $3 and $4 and d.id = i.id and d.claims = i.claim`

const toArrays = (claims: readonly ClaimKey[]) => [
  textArray(claims.map((claim) => claim.id)),
  integerArray(claims.map((claim) => claim.fence)),
  ...positionRange(claims),
]

/** What was to be claimed. */
interface ClaimAttempt {
  readonly endpointIds: readonly string[]
  /** In milliseconds since the Unix epoch. */
  readonly leasedUntilMs: number
}

/** Claims whose result did not arrive: the statement may have taken effect. */
export interface UnclearClaims {
  /** Runs what claims deliveries of these endpoints. */
  watch<T>(attempt: ClaimAttempt, claim: () => Promise<T>): Promise<T>
  /** Releases what they claimed, which would wait until the lease ends. Cheap if there is nothing. */
  release(): Promise<void>
}

/** How many of an endpoint's deliveries, those that were due first, are looked at. */
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
 * A lease is recognised by its end. If another process has claimed of the same endpoint in the same millisecond,
 * its deliveries may be sent twice, with the same id.
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
      update webhook_delivery set leased_until = null, claims = claims + 1 where ${inCte('unclear')}`,
    values: [
      textArray([...new Set(unclear.flatMap(({ endpointIds }) => endpointIds))]),
      timestampArray(unclear.map(({ leasedUntilMs }) => leasedUntilMs)),
    ],
  })
}
