import type { Pool } from 'pg'

/** What authentication needs of a key. */
interface KeyRow {
  readonly businessId: string
  readonly secretHash: Uint8Array
  readonly expiresAtMs: number | undefined
  readonly revoked: boolean
}

/** The hot statements on businesses; the rest goes through the ORM. */
export interface BusinessStore {
  findKey(keyId: string): Promise<KeyRow | undefined>
}

export function createBusinessStore(pool: Pool): BusinessStore {
  return {
    async findKey(keyId) {
      const result = await pool.query<{
        business_id: string
        secret_hash: Buffer
        expires_at_ms: number | null
        revoked: boolean
      }>({
        name: 'api-key-find',
        text: `select business_id, secret_hash, revoked_at is not null as revoked,
            (extract(epoch from expires_at) * 1000)::float8 as expires_at_ms
          from api_key where id = $1`,
        values: [keyId],
      })
      const row = result.rows[0]
      if (row === undefined) return undefined
      return {
        businessId: row.business_id,
        secretHash: row.secret_hash,
        expiresAtMs: row.expires_at_ms ?? undefined,
        revoked: row.revoked,
      }
    },
  }
}
