import { timingSafeEqual } from 'node:crypto'
import type { Pool } from 'pg'
import type { Clock } from '../../core/clock.ts'
import { BOOTSTRAP, type InternalCaller } from '../caller.ts'
import { createCredentialCache, type Found } from '../credential-cache.ts'
import { findToken, recordTokenUse } from './store.ts'
import { hashToken, tokenIdOf } from './token-secret.ts'

/** The precision of `last_used_at`. */
const USE_INTERVAL_MS = 60_000

interface Dependencies {
  readonly pool: Pool
  /** For writes that a crash may lose. */
  readonly relaxedPool: Pool
  readonly clock: Clock
  /** ADMIN_TOKEN, which has the scope admin; undefined: not set. */
  readonly bootstrapToken: string | undefined
}

/** Returns the caller that a token belongs to; undefined if it is wrong, expired or revoked. */
export type AuthenticateToken = (
  token: string,
) => InternalCaller | undefined | Promise<InternalCaller | undefined>

export function createAuthenticateToken(dependencies: Dependencies): AuthenticateToken {
  const { clock, bootstrapToken } = dependencies
  const expected = bootstrapToken === undefined ? undefined : hashToken(bootstrapToken)
  const bootstrap: InternalCaller = {
    kind: 'internal',
    tokenId: BOOTSTRAP,
    name: BOOTSTRAP,
    scopes: new Set(['admin']),
  }
  const cache = createCredentialCache<InternalCaller>(clock)
  const find = async (token: string): Promise<Found<InternalCaller> | undefined> => {
    const digest = hashToken(token)
    if (expected !== undefined && timingSafeEqual(digest, expected)) {
      return { value: bootstrap, expiresAtMs: undefined }
    }
    const tokenId = tokenIdOf(token)
    return tokenId === undefined ? undefined : verifyToken(dependencies, tokenId, digest)
  }
  return (token) => cache(token, () => find(token))
}

/** Reads the token of an id from the database and compares its hash. */
async function verifyToken(
  { pool, relaxedPool, clock }: Dependencies,
  tokenId: string,
  digest: Buffer,
): Promise<Found<InternalCaller> | undefined> {
  const row = await findToken(pool, tokenId)
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
