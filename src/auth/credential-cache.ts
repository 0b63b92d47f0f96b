import { LRUCache } from 'lru-cache'
import type { Clock } from '../core/clock.ts'

/** How long a credential stays cached. A revoked credential is refused within this time. */
const CACHED_MS = 800

/** The most credentials that are cached. */
const CREDENTIALS_MAX = 20_000

/** The result of looking a credential up. */
export interface Found<Value> {
  readonly value: Value
  /** Milliseconds since the Unix epoch; undefined: the credential does not expire. */
  readonly expiresAtMs: number | undefined
}

/**
 * Returns the value of a credential: at once if it was found less than a second ago, else from
 * `find`. Concurrent calls for one credential share one call of `find`.
 */
export interface CredentialCache<Value> {
  (
    credential: string,
    find: () => Promise<Found<Value> | undefined>,
  ): Value | undefined | Promise<Value | undefined>
  /** Looks a credential up anew from now on: what look-ups in progress find is not cached. */
  forget(credential: string): void
}

interface Cached<Value> {
  readonly value: Value
  readonly startedMs: number
  readonly untilMs: number
}

interface Lookup<Value> {
  result: Promise<Value | undefined>
  readonly startedMs: number
}

/**
 * Caches credentials by their text, so that a request costs one map look-up. Hashing the text for
 * each request would keep it out of this map but protect nothing: an attacker who reads this memory
 * finds the same texts in the requests. The time of a look-up reveals nothing about a credential
 * either: the map compares texts only if their hashes, seeded per process, are equal. Only
 * credentials that were found are cached, and they are purged when they expire from the cache.
 */
export function createCredentialCache<Value>(clock: Clock): CredentialCache<Value> {
  const cache = new LRUCache<string, Cached<Value>>({
    // It grows with its entries: `max` would allocate all places at the start.
    maxSize: CREDENTIALS_MAX,
    sizeCalculation: () => 1,
    // lru-cache still returns an entry whose age is exactly the ttl.
    ttl: CACHED_MS - 1,
    ttlAutopurge: true,
    ttlResolution: 0,
    perf: clock,
  })
  const lookups = new Map<string, Lookup<Value>>()

  const lookUp = async (
    credential: string,
    find: () => Promise<Found<Value> | undefined>,
    lookup: Lookup<Value>,
  ): Promise<Value | undefined> => {
    const { startedMs } = lookup
    const found = await find()
    if (found === undefined) return undefined
    const untilMs = found.expiresAtMs ?? Number.POSITIVE_INFINITY
    if (untilMs <= startedMs) return undefined
    // It took too long, or the credential was forgotten meanwhile.
    if (lookups.get(credential) !== lookup) return found.value
    // Cached from the start of the look-up: it has not seen a revocation that came after its start.
    cache.set(credential, { value: found.value, startedMs, untilMs }, { start: startedMs })
    return found.value
  }
  const read: CredentialCache<Value> = (credential, find) => {
    const startedMs = clock.now()
    const cached = cache.get(credential)
    if (cached && cached.startedMs <= startedMs && startedMs < cached.untilMs) return cached.value
    const current = lookups.get(credential)
    if (current !== undefined && isRecent(current.startedMs, startedMs)) return current.result
    const lookup: Lookup<Value> = { startedMs, result: Promise.resolve(undefined) }
    lookups.set(credential, lookup)
    lookup.result = lookUp(credential, find, lookup).finally(() => {
      if (lookups.get(credential) === lookup) lookups.delete(credential)
    })
    return lookup.result
  }
  read.forget = (credential) => {
    cache.delete(credential)
    lookups.delete(credential)
  }
  return read
}

/** Whether a time is less than CACHED_MS ago. A clock that was set back must not extend this. */
function isRecent(thenMs: number, nowMs: number): boolean {
  return thenMs <= nowMs && nowMs < thenMs + CACHED_MS
}
