import type { Pool } from 'pg'
import { integerArray, textArray } from '../../postgres/binary-arrays.ts'
import { type DeliveryKey, positionRange } from './delivery-keys.ts'

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
