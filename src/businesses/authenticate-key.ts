import type { BusinessCaller } from '../auth/caller.ts'
import { createCredentialCache, type Found } from '../auth/credential-cache.ts'
import type { Clock } from '../core/clock.ts'
import { Fault } from '../core/errors.ts'
import { type AllowsAddress, createAllowsAddress } from './allowed-addresses.ts'
import { toRateLimit } from './own-rate-limit.ts'
import { matchesHash } from './secret-key.ts'
import type { FindKey } from './store.ts'

/** A valid key. */
interface KnownKey {
  readonly caller: BusinessCaller
  readonly allows: AllowsAddress
  /** Whether `onUse` was called for this cache entry. */
  reported: boolean
}

interface Dependencies {
  readonly findKey: FindKey
  readonly clock: Clock
  /** Called with epoch milliseconds when a key is used, once per entry of the credential cache. */
  readonly onUse: (keyId: string, atMs: number) => void
}

/**
 * Returns the business of a secret key; undefined if the key is wrong, expired or revoked. Throws
 * Fault address_not_allowed if the key may not be used from the caller's address.
 */
export type AuthenticateKey = (
  secret: string,
  address: string,
) => BusinessCaller | undefined | Promise<BusinessCaller | undefined>

export function createAuthenticateKey({ findKey, clock, onUse }: Dependencies): AuthenticateKey {
  const cache = createCredentialCache<KnownKey>(clock)
  const admit = (known: KnownKey | undefined, address: string): BusinessCaller | undefined => {
    if (known === undefined) return undefined
    if (!known.allows(address)) {
      const { businessId, keyId } = known.caller
      const text = `The key may not be used from the address ${address}`
      const logged = { business_id: businessId, key_id: keyId }
      throw new Fault('address_not_allowed', text, { logged })
    }
    if (!known.reported) {
      known.reported = true
      onUse(known.caller.keyId, clock.now())
    }
    return known.caller
  }
  return (secret, address) => {
    const known = cache(secret, () => verifyKey(findKey, secret))
    if (known instanceof Promise) return known.then((found) => admit(found, address))
    return admit(known, address)
  }
}

/** Reads the key that a secret names from the database and compares its hash. */
async function verifyKey(findKey: FindKey, secret: string): Promise<Found<KnownKey> | undefined> {
  const key = await findKey(secret)
  if (key === undefined || !matchesHash(secret, key.secretHash) || key.revoked) return undefined
  const { id: keyId, businessId, live } = key
  const rateLimit = toRateLimit(key.rateLimitPerSecond, key.rateLimitBurst)
  return {
    value: {
      caller: { kind: 'business', businessId, live, keyId, scopes: new Set(key.scopes), rateLimit },
      allows: createAllowsAddress(key.allowedCidrs),
      reported: false,
    },
    expiresAtMs: key.expiresAtMs ?? undefined,
  }
}
