import type { Pool } from 'pg'
import { firstIdAt } from '../../core/ids.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { CredentialHashes } from '../rate-limits/known-credentials.ts'
import type { Token } from './token.entity.ts'

/** The columns of a token that authentication needs. Times in milliseconds since the Unix epoch. */
interface TokenRow extends Pick<Token, 'name' | 'secretHash' | 'scopes'> {
  readonly businessIds: readonly string[] | null
  readonly expiresAtMs: number | null
  readonly lastUsedAtMs: number | null
  readonly revoked: boolean
}

export async function findToken(pool: Pool, tokenId: string): Promise<TokenRow | undefined> {
  const result = await pool.query<TokenRow>({
    name: 'internal-token-find',
    text: `select name, secret_hash as "secretHash", scopes, business_ids as "businessIds",
        ${epochMs('expires_at')} as "expiresAtMs", ${epochMs('last_used_at')} as "lastUsedAtMs",
        revoked_at is not null as revoked
      from internal_token where id = $1`,
    values: [tokenId],
  })
  const [row] = result.rows
  // Copied, because a cached view would keep the driver's whole 64 KiB buffer.
  return row && { ...row, secretHash: Uint8Array.from(row.secretHash) }
}

/** Reads the hashes of valid tokens: see CredentialHashes. The latest are read once, at the start. */
export function createTokenHashes(pool: Pool): CredentialHashes {
  const valid = 'revoked_at is null and (expires_at is null or expires_at > now())'
  const read = async (where: string, order: string, values: unknown[]) => {
    const { rows } = await pool.query<{ hash: string }>(
      `select encode(secret_hash, 'base64') as hash from internal_token
        where ${valid} and ${where} order by ${order} desc limit $1`,
      values,
    )
    return rows.map(({ hash }) => hash)
  }
  return {
    latest: (limit) => read('true', 'coalesce(last_used_at, created_at)', [limit]),
    // Ids begin with the time of issue, so this reads the end of the primary key.
    issuedSince: (sinceMs, limit) => read('id > $2', 'id', [limit, firstIdAt('tok', sinceMs)]),
  }
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
