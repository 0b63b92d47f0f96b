import type { BusinessCaller } from '../caller.ts'
import type { Clock } from '../clock.ts'
import { Fault } from '../errors.ts'
import { type AllowsAddress, createAllowsAddress } from './allowed-addresses.ts'
import { keyIdOf, matchesHash } from './secret-key.ts'
import type { BusinessStore } from './store.ts'

/** How long a key is trusted without asking the database: a revoked one is refused within this. */
const TRUST_MS = 800

/** How many keys each of the two generations remembers. */
const KEYS_MAX = 10_000

/** A key that the database knew. */
interface Remembered {
  readonly caller: BusinessCaller
  readonly allows: AllowsAddress
  readonly askedMs: number
  readonly untilMs: number
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
) => Promise<BusinessCaller | undefined>

/**
 * Remembers keys by their text for as long as they are trusted, so that a request costs one look
 * into a map. Hashing the text for each request instead would keep it out of this map, and guard
 * nothing: whoever reads this memory finds the same texts in the requests that brought them. Nor
 * does the time of a look-up tell of a key: the map compares texts only where their hashes, seeded
 * anew in each process, are equal. What the database holds is compared in constant time. Texts
 * that were not proved right are never kept, and the others for two generations at the most.
 */
export function createAuthenticateKey({ store, clock, used }: Dependencies): AuthenticateKey {
  let young = new Map<string, Remembered>()
  let old = new Map<string, Remembered>()
  let turnsAtMs = 0
  // A busy key whose trust ends is asked for once, not by each of its requests.
  const underWay = new Map<string, Promise<Remembered | undefined>>()

  const recall = (secret: string, nowMs: number): Remembered | undefined => {
    if (nowMs >= turnsAtMs || young.size >= KEYS_MAX) {
      old = young
      young = new Map()
      turnsAtMs = nowMs + TRUST_MS
    }
    const known = young.get(secret) ?? old.get(secret)
    // A clock that was set back must not prolong the trust.
    if (known === undefined || (known.askedMs <= nowMs && nowMs < known.untilMs)) return known
    young.delete(secret)
    old.delete(secret)
    return undefined
  }
  const ask = async (secret: string): Promise<Remembered | undefined> => {
    const known = await proveKey(store, clock, secret)
    if (known !== undefined) young.set(secret, known)
    return known
  }
  const askOnce = (secret: string): Promise<Remembered | undefined> => {
    let answer = underWay.get(secret)
    if (answer === undefined) {
      answer = ask(secret).finally(() => underWay.delete(secret))
      underWay.set(secret, answer)
    }
    return answer
  }
  return async (secret, address) => {
    const nowMs = clock.now()
    const known = recall(secret, nowMs) ?? (await askOnce(secret))
    if (known === undefined) return undefined
    if (!known.allows(address)) {
      throw new Fault('address_not_allowed', `The key does not work from the address ${address}`)
    }
    if (!known.noted) {
      known.noted = true
      used(known.caller.keyId, nowMs)
    }
    return known.caller
  }
}

/** Asks the database for the key that a text claims to be. */
async function proveKey(
  store: BusinessStore,
  clock: Clock,
  secret: string,
): Promise<Remembered | undefined> {
  const keyId = keyIdOf(secret)
  if (keyId === undefined) return undefined
  const askedMs = clock.now()
  const key = await store.findKey(keyId)
  if (key === undefined || !matchesHash(secret, key.secretHash)) return undefined
  const endsMs = key.expiresAtMs ?? Number.POSITIVE_INFINITY
  if (key.revoked || endsMs <= askedMs) return undefined
  return {
    caller: {
      kind: 'business',
      businessId: key.businessId,
      live: key.live,
      keyId,
      rateLimit: key.rateLimit,
    },
    allows: createAllowsAddress(key.allowedCidrs),
    askedMs,
    untilMs: Math.min(askedMs + TRUST_MS, endsMs),
    noted: false,
  }
}
