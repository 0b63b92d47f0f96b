import type { Pool } from 'pg'
import type { RateLimit } from '../auth/rate-limits/token-bucket.ts'
import { textArray, timestampArray } from '../postgres/binary-arrays.ts'
import { toRateLimit } from './own-rate-limit.ts'

/** The columns of a key that authentication needs. */
interface KeyRow {
  readonly businessId: string
  readonly live: boolean
  readonly secretHash: Uint8Array
  readonly expiresAtMs: number | undefined
  readonly revoked: boolean
  readonly allowedCidrs: readonly string[]
  readonly rateLimit: RateLimit | undefined
}

/** The frequent statements on businesses; the rest goes through the ORM. */
export interface BusinessStore {
  findKey(keyId: string): Promise<KeyRow | undefined>
  /** Returns the prefix of a business's account names; undefined if the business does not exist. */
  findAlias(businessId: string): Promise<string | undefined>
}

export function createBusinessStore(pool: Pool): BusinessStore {
  return {
    async findKey(keyId) {
      const result = await pool.query<{
        business_id: string
        live: boolean
        secret_hash: Buffer
        expires_at_ms: number | null
        revoked: boolean
        allowed_cidrs: string[]
        rate_limit_per_second: number | null
        rate_limit_burst: number | null
      }>({
        name: 'api-key-find',
        text: `select business_id, live, secret_hash, revoked_at is not null as revoked,
            (extract(epoch from expires_at) * 1000)::float8 as expires_at_ms, allowed_cidrs,
            rate_limit_per_second, rate_limit_burst
          from api_key k join business b on b.id = k.business_id where k.id = $1`,
        values: [keyId],
      })
      const row = result.rows[0]
      if (row === undefined) return undefined
      return {
        businessId: row.business_id,
        live: row.live,
        // Copied, because a cached view would keep the driver's whole 64 KiB buffer.
        secretHash: Uint8Array.from(row.secret_hash),
        expiresAtMs: row.expires_at_ms ?? undefined,
        revoked: row.revoked,
        allowedCidrs: row.allowed_cidrs,
        rateLimit: toRateLimit(row.rate_limit_per_second, row.rate_limit_burst),
      }
    },
    async findAlias(businessId) {
      const result = await pool.query<{ alias: string }>({
        name: 'business-find-alias',
        text: 'select alias from business where id = $1',
        values: [businessId],
      })
      return result.rows[0]?.alias
    },
  }
}

/**
 * Writes when keys were last used.
 *
 * @param uses epoch milliseconds by key id
 */
export async function writeKeyUses(pool: Pool, uses: ReadonlyMap<string, number>): Promise<void> {
  // Rows that are locked are skipped until the next write: several instances write the same keys,
  // and must wait neither for one another nor for an operator's transaction.
  await pool.query({
    name: 'api-key-uses-write',
    text: `with used as (
        select * from unnest($1::text[], $2::timestamptz[]) as u(id, at)
      ), free as (
        select k.id, u.at from api_key k join used u using (id)
        where k.last_used_at is null or k.last_used_at < u.at
        for no key update of k skip locked
      )
      update api_key k set last_used_at = f.at from free f where k.id = f.id`,
    values: [textArray([...uses.keys()]), timestampArray([...uses.values()])],
  })
}
