import type { BusinessCaller } from '../caller.ts'
import type { Clock } from '../clock.ts'
import { keyIdOf, matchesHash, secretDigest } from './secret-key.ts'
import type { BusinessStore } from './store.ts'

/** How long a key is trusted without asking the database: a revoked one is refused within this. */
const TRUST_MS = 800

/** How many keys are remembered. */
const KEYS_MAX = 10_000

interface Remembered {
  readonly caller: BusinessCaller
  readonly untilMs: number
}

/** Finds the business of a secret key; undefined for a wrong, expired or revoked one. */
export type AuthenticateKey = (secret: string) => Promise<BusinessCaller | undefined>

export function createAuthenticateKey(store: BusinessStore, clock: Clock): AuthenticateKey {
  const remembered = new Map<string, Remembered>()
  return async (secret) => {
    const digest = secretDigest(secret)
    const known = remembered.get(digest)
    if (known !== undefined && clock.now() < known.untilMs) return known.caller
    remembered.delete(digest)
    const keyId = keyIdOf(secret)
    if (keyId === undefined) return undefined
    const askedMs = clock.now()
    const key = await store.findKey(keyId)
    if (key === undefined || !matchesHash(secret, key.secretHash)) return undefined
    if (key.revoked || (key.expiresAtMs !== undefined && key.expiresAtMs <= askedMs))
      return undefined
    const caller: BusinessCaller = { kind: 'business', businessId: key.businessId, keyId }
    if (remembered.size >= KEYS_MAX) remembered.clear()
    const untilMs = Math.min(askedMs + TRUST_MS, key.expiresAtMs ?? Number.POSITIVE_INFINITY)
    remembered.set(digest, { caller, untilMs })
    return caller
  }
}
