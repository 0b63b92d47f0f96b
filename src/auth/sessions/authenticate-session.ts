import { timingSafeEqual } from 'node:crypto'
import type { Runtime } from '../../postgres/runtime.ts'
import { BOOTSTRAP, type InternalCaller } from '../caller.ts'
import { createCredentialCache, type Found } from '../credential-cache.ts'
import { hashSecret, idIn, proofOf } from '../token-secret.ts'
import { findSession, recordSessionUse } from './store.ts'

/** The precision of `last_used_at`. A session may end earlier by this much than its idle time. */
const USE_INTERVAL_MS = 60_000

interface Dependencies {
  /** ADMIN_TOKEN; undefined: not set. */
  readonly adminToken: string | undefined
  /** How long a session lasts without being used. */
  readonly idleMs: number
}

/** `watch` does not count as a use: otherwise the open stream of a forgotten tab would keep its session alive. */
export type SessionPurpose = 'use' | 'watch'

/** Returns the caller of a session; undefined if the secret is wrong, or the session has expired or ended. */
export interface AuthenticateSession {
  (
    secret: string,
    purpose: SessionPurpose,
  ): InternalCaller | undefined | Promise<InternalCaller | undefined>
  /** Forgets a session at once that has ended in the database. Other instances notice the end within a second. */
  forget(secret: string): void
}

interface Cached {
  readonly caller: InternalCaller
  readonly sessionId: string
  lastUsedAtMs: number
}

export function createAuthenticateSession(
  runtime: Runtime,
  dependencies: Dependencies,
): AuthenticateSession {
  const { clock } = runtime
  const { relaxedPool } = runtime.database
  const cache = createCredentialCache<Cached>(clock)
  const use = (found: Cached | undefined, purpose: SessionPurpose) => {
    if (found === undefined) return undefined
    const nowMs = clock.now()
    if (purpose === 'use' && nowMs - found.lastUsedAtMs >= USE_INTERVAL_MS) {
      found.lastUsedAtMs = nowMs
      // The request does not wait for this write. If it fails, a later request writes it.
      recordSessionUse(relaxedPool, found.sessionId, nowMs).catch(() => undefined)
    }
    return found.caller
  }
  const authenticate: AuthenticateSession = (secret, purpose) => {
    const found = cache(secret, () => verify(runtime, dependencies, secret))
    return found instanceof Promise ? found.then((late) => use(late, purpose)) : use(found, purpose)
  }
  authenticate.forget = cache.forget
  return authenticate
}

/** Reads a session from the database by the id in its secret, and compares the hash of the secret. */
async function verify(
  { database: { recordingPool } }: Runtime,
  { idleMs, adminToken }: Dependencies,
  secret: string,
): Promise<Found<Cached> | undefined> {
  const sessionId = idIn('ses', secret)
  const row = sessionId === undefined ? undefined : await findSession(recordingPool, sessionId)
  if (row === undefined || row.revoked) return undefined
  if (!timingSafeEqual(hashSecret(secret), row.secretHash)) return undefined
  if (row.callerId === BOOTSTRAP && !provesToken(row.proof, secret, adminToken)) return undefined
  const { id, kind, callerId, name, scopes, businessIds, expiresAtMs, lastUsedAtMs } = row
  const caller: InternalCaller = {
    kind: 'internal',
    tokenId: callerId,
    name,
    scopes: new Set(scopes),
    businessIds: businessIds ? new Set(businessIds) : undefined,
    expiresAtMs,
    session: { id, kind },
  }
  return {
    value: { caller, sessionId: id, lastUsedAtMs },
    expiresAtMs: Math.min(expiresAtMs, lastUsedAtMs + idleMs),
  }
}

/** Whether ADMIN_TOKEN is still the token with which a session began. */
export function provesToken(
  proof: Uint8Array | null,
  secret: string,
  adminToken: string | undefined,
): boolean {
  if (proof === null || adminToken === undefined) return false
  return timingSafeEqual(proof, proofOf(secret, adminToken))
}
