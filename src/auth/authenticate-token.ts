import { timingSafeEqual } from 'node:crypto'
import type { Pool } from 'pg'
import { firstIdAt } from '../core/ids.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Token } from './auth.entity.ts'
import { BOOTSTRAP, type InternalCaller } from './caller.ts'
import { createCredentialCache, type Found } from './credential-cache.ts'
import type { CredentialHashes } from './rate-limits/known-credentials.ts'
import { hashSecret, idIn } from './token-secret.ts'

/** The precision of `last_used_at`. */
const USE_INTERVAL_MS = 60_000

/** Returns the caller of a token; undefined if the token is wrong, expired or revoked. */
export type AuthenticateToken = (
  token: string,
) => InternalCaller | undefined | Promise<InternalCaller | undefined>

/** @param bootstrapToken ADMIN_TOKEN, which has the scope admin; undefined: not set */
export function createAuthenticateToken(
  runtime: Runtime,
  bootstrapToken: string | undefined,
): AuthenticateToken {
  const expected = bootstrapToken === undefined ? undefined : hashSecret(bootstrapToken)
  const bootstrap: InternalCaller = {
    kind: 'internal',
    tokenId: BOOTSTRAP,
    name: BOOTSTRAP,
    scopes: new Set(['admin']),
  }
  const cache = createCredentialCache<InternalCaller>(runtime.clock)
  const find = async (token: string): Promise<Found<InternalCaller> | undefined> => {
    const digest = hashSecret(token)
    if (expected !== undefined && timingSafeEqual(digest, expected)) {
      return { value: bootstrap, expiresAtMs: undefined }
    }
    const tokenId = idIn('tok', token)
    return tokenId === undefined ? undefined : verifyToken(runtime, tokenId, digest)
  }
  return (token) => cache(token, () => find(token))
}

/** Reads a token from the database by its id, and compares its hash. */
async function verifyToken(
  { database: { recordingPool, relaxedPool }, clock }: Runtime,
  tokenId: string,
  digest: Buffer,
): Promise<Found<InternalCaller> | undefined> {
  const row = await findToken(recordingPool, tokenId)
  if (row === undefined || row.revoked || !timingSafeEqual(digest, row.secretHash)) return undefined
  const nowMs = clock.now()
  if (row.expiresAtMs !== null && row.expiresAtMs <= nowMs) return undefined
  if (nowMs - (row.lastUsedAtMs ?? 0) >= USE_INTERVAL_MS) {
    // The request does not wait for this write. If it fails, a later request writes it.
    recordTokenUse(relaxedPool, tokenId, nowMs).catch(() => undefined)
  }
  const caller: InternalCaller = {
    kind: 'internal',
    tokenId,
    name: row.name,
    scopes: new Set(row.scopes),
    businessIds: row.businessIds ? new Set(row.businessIds) : undefined,
    expiresAtMs: row.expiresAtMs ?? undefined,
  }
  return { value: caller, expiresAtMs: row.expiresAtMs ?? undefined }
}

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
        round(date_part('epoch', expires_at) * 1000) as "expiresAtMs",
        round(date_part('epoch', last_used_at) * 1000) as "lastUsedAtMs",
        revoked_at is not null as revoked
      from internal_token where id = $1`,
    values: [tokenId],
  })
  const [row] = result.rows
  // Copied, because a cached view would keep the driver's whole 64 KiB buffer.
  return row && { ...row, secretHash: Uint8Array.from(row.secretHash) }
}

/** Reads the hashes of valid tokens: see CredentialHashes. `latest` is called once, at the start. */
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
async function recordTokenUse(pool: Pool, tokenId: string, nowMs: number): Promise<void> {
  await pool.query({
    name: 'internal-token-record-use',
    text: `update internal_token set last_used_at = $2
      where id = $1 and (last_used_at is null or last_used_at < $2)`,
    values: [tokenId, new Date(nowMs)],
  })
}
