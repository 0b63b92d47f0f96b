import { timingSafeEqual } from 'node:crypto'
import type { Pool } from 'pg'
import type { Clock } from '../../core/clock.ts'
import { BOOTSTRAP, type InternalCaller } from '../caller.ts'
import { createCredentialCache, type Found } from '../credential-cache.ts'
import { findToken, noteTokenUse } from './store.ts'
import { hashToken, tokenIdOf } from './token-secret.ts'

/** How exact `last_used_at` is. */
const USE_NOTED_MS = 60_000

interface Dependencies {
  readonly pool: Pool
  /** For notes that may be lost. */
  readonly relaxedPool: Pool
  readonly clock: Clock
  /** The token of the settings, of scope admin; undefined: there is none. */
  readonly bootstrapToken: string | undefined
}

/** Finds the holder of a token; undefined for a wrong, expired or revoked one. */
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
  const trust = createCredentialCache<InternalCaller>(clock)
  const find = async (token: string): Promise<Found<InternalCaller> | undefined> => {
    const digest = hashToken(token)
    if (expected !== undefined && timingSafeEqual(digest, expected)) {
      return { who: bootstrap, expiresAtMs: undefined }
    }
    const tokenId = tokenIdOf(token)
    return tokenId === undefined ? undefined : proveToken(dependencies, tokenId, digest)
  }
  return (token) => trust(token, () => find(token))
}

/** Asks the database for the token of an id. */
async function proveToken(
  { pool, relaxedPool, clock }: Dependencies,
  tokenId: string,
  digest: Buffer,
): Promise<Found<InternalCaller> | undefined> {
  const row = await findToken(pool, tokenId)
  if (row === undefined || row.revoked || !timingSafeEqual(digest, row.secretHash)) return undefined
  const nowMs = clock.now()
  if (nowMs - (row.lastUsedAtMs ?? 0) >= USE_NOTED_MS) {
    // Nobody waits for the note, and the next minute brings another.
    noteTokenUse(relaxedPool, tokenId, nowMs).catch(() => undefined)
  }
  const who: InternalCaller = {
    kind: 'internal',
    tokenId,
    name: row.name,
    scopes: new Set(row.scopes),
    businessIds: row.businessIds && new Set(row.businessIds),
  }
  return { who, expiresAtMs: row.expiresAtMs }
}
