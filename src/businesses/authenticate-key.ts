import type { BusinessCaller } from '../auth/caller.ts'
import { createCredentialCache, type Found } from '../auth/credential-cache.ts'
import type { Clock } from '../core/clock.ts'
import { Fault } from '../core/errors.ts'
import { type AllowsAddress, createAllowsAddress } from './allowed-addresses.ts'
import { keyIdOf, matchesHash } from './secret-key.ts'
import type { BusinessStore } from './store.ts'

/** A key that the database knew. */
interface KnownKey {
  readonly caller: BusinessCaller
  readonly allows: AllowsAddress
  /** Whether it was told already that the key is in use. */
  noted: boolean
}

interface Dependencies {
  readonly store: BusinessStore
  readonly clock: Clock
  /** A key was used, at epoch milliseconds; told once for each time that it is trusted. */
  readonly used: (keyId: string, atMs: number) => void
}

/**
 * Finds the business of a secret key; undefined for a wrong, expired or revoked one. Throws Fault
 * address_not_allowed for one that does not work from the caller's address.
 */
export type AuthenticateKey = (
  secret: string,
  address: string,
) => BusinessCaller | undefined | Promise<BusinessCaller | undefined>

export function createAuthenticateKey({ store, clock, used }: Dependencies): AuthenticateKey {
  const trust = createCredentialCache<KnownKey>(clock)
  const admit = (known: KnownKey | undefined, address: string): BusinessCaller | undefined => {
    if (known === undefined) return undefined
    if (!known.allows(address)) {
      throw new Fault('address_not_allowed', `The key does not work from the address ${address}`)
    }
    if (!known.noted) {
      known.noted = true
      used(known.caller.keyId, clock.now())
    }
    return known.caller
  }
  return (secret, address) => {
    const known = trust(secret, () => proveKey(store, secret))
    if (known instanceof Promise) return known.then((found) => admit(found, address))
    return admit(known, address)
  }
}

/** Asks the database for the key that a text claims to be. */
async function proveKey(
  store: BusinessStore,
  secret: string,
): Promise<Found<KnownKey> | undefined> {
  const keyId = keyIdOf(secret)
  if (keyId === undefined) return undefined
  const key = await store.findKey(keyId)
  if (key === undefined || !matchesHash(secret, key.secretHash) || key.revoked) return undefined
  const { businessId, live, rateLimit } = key
  return {
    who: {
      caller: { kind: 'business', businessId, live, keyId, rateLimit },
      allows: createAllowsAddress(key.allowedCidrs),
      noted: false,
    },
    expiresAtMs: key.expiresAtMs,
  }
}
