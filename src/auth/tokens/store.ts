import type { Pool } from 'pg'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Scope } from '../caller.ts'

/** The columns of a token that authentication needs. Times in milliseconds since the Unix epoch. */
export interface TokenRow {
  readonly name: string
  readonly secretHash: Uint8Array
  readonly scopes: readonly Scope[]
  readonly businessIds: readonly string[] | undefined
  readonly expiresAtMs: number | undefined
  readonly lastUsedAtMs: number | undefined
  readonly revoked: boolean
}

export async function findToken(pool: Pool, tokenId: string): Promise<TokenRow | undefined> {
  const result = await pool.query<{
    name: string
    secret_hash: Buffer
    scopes: Scope[]
    business_ids: string[] | null
    expires_at_ms: number | null
    last_used_at_ms: number | null
    revoked: boolean
  }>({
    name: 'internal-token-find',
    text: `select name, secret_hash, scopes, business_ids, revoked_at is not null as revoked,
        ${epochMs('expires_at')} as expires_at_ms, ${epochMs('last_used_at')} as last_used_at_ms
      from internal_token where id = $1`,
    values: [tokenId],
  })
  const row = result.rows[0]
  return (
    row && {
      name: row.name,
      // Copied, because a cached view would keep the driver's whole 64 KiB buffer.
      secretHash: Uint8Array.from(row.secret_hash),
      scopes: row.scopes,
      businessIds: row.business_ids ?? undefined,
      expiresAtMs: row.expires_at_ms ?? undefined,
      lastUsedAtMs: row.last_used_at_ms ?? undefined,
      revoked: row.revoked,
    }
  )
}

/** Records when a token was used, unless another instance recorded a later use. */
export async function recordTokenUse(pool: Pool, tokenId: string, nowMs: number): Promise<void> {
  await pool.query({
    name: 'internal-token-record-use',
    text: `update internal_token set last_used_at = $2
      where id = $1 and (last_used_at is null or last_used_at < $2)`,
    values: [tokenId, new Date(nowMs)],
  })
}
